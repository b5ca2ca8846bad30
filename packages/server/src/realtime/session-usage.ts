import { type AgencyContext, usageOfRealtimeResponse } from '@bureau/framework'
import { addUsage, type Fields, fieldsOf, NO_USAGE, type Usage } from '@bureau/protocol'
import type { SessionObserver } from '@bureau/runtime'
import type { RealtimeSession } from '@openai/agents-realtime'

type MeteredSession = {
  readonly session: RealtimeSession<AgencyContext>
  readonly model: string
  readonly observer: SessionObserver | undefined
}

type Spent = { readonly agent: string; readonly model: string; readonly usage: unknown }

/**
 * What a voice session has spent: every answer of the model counts when it is done, also an interrupted one, and
 * every writing down of what the user said.
 */
export class SessionUsage {
  readonly #observer: SessionObserver | undefined
  #total: Usage = NO_USAGE

  constructor({ session, model, observer }: MeteredSession) {
    this.#observer = observer
    let agent = session.currentAgent.name
    let transcriber = 'unknown'
    session.on('transport_event', (event) => {
      switch (event.type) {
        case 'session.updated':
          transcriber = transcriberOf(event) ?? transcriber
          return
        case 'response.created':
          // A response belongs to the agent that began it, though it may end with a handoff.
          agent = session.currentAgent.name
          return
        case 'response.done':
          return this.#add({ agent, model, usage: fieldsOf(event['response'])['usage'] })
        case 'conversation.item.input_audio_transcription.completed': {
          const usage = fieldsOf(event['usage'])
          // Some models are charged by the second instead.
          if (usage['type'] === 'tokens') this.#add({ agent: session.currentAgent.name, model: transcriber, usage })
        }
      }
    })
  }

  get total(): Usage {
    return this.#total
  }

  #add({ agent, model, usage: raw }: Spent): void {
    const { usage } = usageOfRealtimeResponse(model, raw)
    this.#total = addUsage(this.#total, usage)
    this.#observer?.spent({ agent, model, usage })
  }
}

/** The model that writes down what the user says. */
function transcriberOf(event: Fields): string | undefined {
  const { input } = fieldsOf(fieldsOf(event['session'])['audio'])
  const { model } = fieldsOf(fieldsOf(input)['transcription'])
  return typeof model === 'string' ? model : undefined
}
