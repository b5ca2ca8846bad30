import { checkInputItems } from './check-input-items.ts'
import { checkStrictSchema, checkTools } from './check-tools.ts'
import type { IssuedItems } from './issued-items.ts'
import { isJsonObject, jsonObjects, type JsonObject } from './json-object.ts'
import { missingParameter, ProviderError, unknownParameter } from './provider-error.ts'
import type { RecordedRequest } from './recorded-request.ts'

/**
 * Refuses what `POST /v1/responses` of the real service refuses.
 *
 * @throws ProviderError with the status, sentence, `param` and `code` that the service uses.
 */
export function checkResponsesRequest({ body }: RecordedRequest, issued: IssuedItems): void {
  const unknown = Object.keys(body).find((key) => !PARAMETERS.has(key))
  if (unknown) throw unknownParameter(unknown)
  if (typeof body['model'] !== 'string' && body['prompt'] === undefined) throw missingParameter('model')
  if (typeof body['previous_response_id'] === 'string') throw noSuchResponse(body['previous_response_id'])
  if (body['input'] === undefined && body['prompt'] === undefined) throw missingParameter('input')
  checkTools(body['tools'], (tool) => tool)
  checkToolMembers(body['tools'])
  checkToolChoice(body)
  checkTextFormat(body)
  if (body['input'] !== undefined) checkInputItems(body['input'], issued)
}

function checkToolMembers(tools: unknown): void {
  for (const [index, tool] of jsonObjects(tools).entries()) {
    const members = TOOL_MEMBERS[String(tool['type'])]?.split(' ')
    const unknown = members && Object.keys(tool).find((key) => key !== 'type' && !members.includes(key))
    if (unknown) throw unknownParameter(`tools[${index}].${unknown}`)
  }
}

/** What the service takes for its tools, besides their type. Tools of other types are not checked. */
const TOOL_MEMBERS: Readonly<Record<string, string>> = {
  function: 'name parameters strict allowed_callers async defer_loading description output_schema',
  web_search: 'external_web_access filters image_settings search_content_types search_context_size user_location',
  web_search_preview: 'search_content_types search_context_size user_location',
  file_search: 'vector_store_ids filters max_num_results ranking_options',
  tool_search: 'description execution parameters',
  computer: '',
  computer_use_preview: 'display_height display_width environment',
  shell: 'allowed_callers environment',
  apply_patch: 'allowed_callers',
  namespace: 'description name tools',
  code_interpreter: 'container allowed_callers',
  programmatic_tool_calling: '',
  image_generation:
    'action background input_fidelity input_image_mask model moderation output_compression output_format ' +
    'partial_images quality size',
  mcp:
    'server_label allowed_callers allowed_tools authorization connector_id defer_loading headers require_approval ' +
    'server_description server_url',
}

function checkToolChoice({ tool_choice: choice, tools }: JsonObject): void {
  if (!isJsonObject(choice) || choice['type'] !== 'function') return
  const { name } = choice
  if (jsonObjects(tools).some((tool) => tool['name'] === name)) return
  throw new ProviderError(`Tool choice '${String(name)}' not found in 'tools' parameter.`, { param: 'tool_choice' })
}

function checkTextFormat({ text }: JsonObject): void {
  const format = isJsonObject(text) ? text['format'] : undefined
  if (!isJsonObject(format) || format['type'] !== 'json_schema' || format['strict'] !== true) return
  checkStrictSchema(format['schema'], `response_format '${String(format['name'])}'`, 'text.format.schema')
}

/** The provider keeps no conversations, so every response it is asked to continue is unknown to it. */
const noSuchResponse = (id: string): ProviderError =>
  new ProviderError(`Previous response with id '${id}' not found.`, {
    param: 'previous_response_id',
    code: 'previous_response_not_found',
  })

const PARAMETERS: ReadonlySet<string> = new Set(
  `access_programs background context_management conversation image include input instructions max_output_tokens
  max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key
  prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options
  temperature text tool_choice tools top_logprobs top_p truncation user`.split(/\s+/),
)
