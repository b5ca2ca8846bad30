import { z } from 'zod'

const id = z.string().min(1).max(512)
const modalities = z.array(z.enum(['text', 'audio'])).max(2)

/** In the provider's own words. */
export const TurnDetection = z
  .strictObject({
    type: z.enum(['server_vad', 'semantic_vad']),
    threshold: z.number().min(0).max(1),
    prefix_padding_ms: z.int().nonnegative(),
    silence_duration_ms: z.int().nonnegative(),
    idle_timeout_ms: z.int().nonnegative().nullable(),
    eagerness: z.enum(['low', 'medium', 'high', 'auto']),
    create_response: z.boolean(),
    interrupt_response: z.boolean(),
  })
  .partial()
  .nullable()

/** What a client may change of its session. Prompts, tools, model, voice, formats and tracing are the operator's. */
const session = z.strictObject({
  type: z.literal('realtime').optional(),
  output_modalities: modalities.optional(),
  audio: z
    .strictObject({
      input: z
        .strictObject({
          turn_detection: TurnDetection.optional(),
          noise_reduction: z.strictObject({ type: z.enum(['near_field', 'far_field']) }).nullish(),
        })
        .optional(),
      output: z.strictObject({ speed: z.number().min(0.25).max(1.5) }).optional(),
    })
    .optional(),
  /** Where xAI has it. */
  turn_detection: TurnDetection.optional(),
})

const userPart = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('input_text'), text: z.string() }),
  z.strictObject({ type: z.literal('input_audio'), audio: z.base64(), transcript: z.string().nullish() }),
  z.strictObject({
    type: z.literal('input_image'),
    // The provider would fetch any other address.
    image_url: z.string().startsWith('data:image/'),
    detail: z.enum(['auto', 'low', 'high']).optional(),
  }),
])
const item = { type: z.literal('message'), id: id.optional(), object: z.literal('realtime.item').optional() }
const status = z.enum(['completed', 'incomplete', 'in_progress']).optional()

/** Messages of the user, and answers from before. System messages and the results of tools are not the client's to write. */
const message = z.discriminatedUnion('role', [
  z.strictObject({ ...item, role: z.literal('user'), content: z.array(userPart).max(100), status }),
  z.strictObject({
    ...item,
    role: z.literal('assistant'),
    content: z.array(z.strictObject({ type: z.literal('output_text'), text: z.string() })).max(100),
    status,
  }),
])

const response = z.strictObject({
  output_modalities: modalities.optional(),
  max_output_tokens: z.union([z.int().positive(), z.literal('inf')]).optional(),
})

const event = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), event_id: id.optional(), ...shape })

/**
 * The events of the model's own protocol that clients may send. A client speaks to the agent that the operator has made, so
 * nothing in here can change who that is, what it may do, or on which model.
 */
export const ClientEvent = z.discriminatedUnion('type', [
  event('session.update', { session }),
  event('input_audio_buffer.append', { audio: z.base64() }),
  event('input_audio_buffer.commit', {}),
  event('input_audio_buffer.clear', {}),
  event('conversation.item.create', { item: message, previous_item_id: id.nullish() }),
  event('conversation.item.retrieve', { item_id: id }),
  event('conversation.item.truncate', {
    item_id: id,
    content_index: z.int().nonnegative(),
    audio_end_ms: z.int().nonnegative(),
  }),
  event('conversation.item.delete', { item_id: id }),
  event('response.create', { response: response.optional() }),
  event('response.cancel', { response_id: id.optional() }),
])
export type ClientEvent = z.infer<typeof ClientEvent>

const MAX_SHOWN_LENGTH = 100

/** Why an event was refused: where it goes wrong, and how. */
export function refusalOf(error: z.ZodError, type: string): string {
  const [issue] = error.issues
  if (issue?.code === 'invalid_union' && issue.path.join() === 'type') {
    return `clients may not send events of the type "${type.slice(0, MAX_SHOWN_LENGTH)}"`
  }
  const path = issue?.path.join('.') || 'the event'
  return `${type} is refused at ${path}: ${issue?.message.slice(0, MAX_SHOWN_LENGTH)}`
}
