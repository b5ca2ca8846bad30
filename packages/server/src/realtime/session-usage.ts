import { type AgencyContext, usageOfRealtimeResponse } from '@bureau/framework'
import { addUsage, NO_USAGE, type Usage } from '@bureau/protocol'
import type { RealtimeSession } from '@openai/agents-realtime'
import type { SessionObserver } from '../observability/count-sessions.ts'

type MeteredSession = {
  readonly session: RealtimeSession<AgencyContext>
  readonly model: string
  readonly observer: SessionObserver | undefined
}

/** What a voice session has spent: every answer of the model counts when it is done, also one that was interrupted. */
export class SessionUsage {
  #total: Usage = NO_USAGE

  constructor({ session, model, observer }: MeteredSession) {
    let agent = session.currentAgent.name
    session.on('transport_event', (event) => {
      // A response belongs to the agent that began it, though it may end with a handoff.
      if (event.type === 'response.created') agent = session.currentAgent.name
      if (event.type !== 'response.done') return
      const { response } = event as { readonly response?: { readonly usage?: unknown } }
      const { usage } = usageOfRealtimeResponse(model, response?.usage)
      this.#total = addUsage(this.#total, usage)
      observer?.spent({ agent, model, usage })
    })
  }

  get total(): Usage {
    return this.#total
  }
}
