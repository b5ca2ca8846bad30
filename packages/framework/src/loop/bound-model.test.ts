import type { RunEvent } from '@bureau/protocol'
import { Dispatcher } from 'undici'
import { expect, test } from 'vitest'
import { runEnvironment } from '../../../../tests/support/run-environment.ts'
import { Agency } from '../agency/agency.ts'
import { Agent } from '../agency/agent.ts'
import { runAgency } from '../run-agency.ts'
import { RunControl } from '../run/run-control.ts'

/** Refuses every connection as an egress guard does that resolves a name to a private address. */
class RefusingDispatcher extends Dispatcher {
  override dispatch(_options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const error = Object.assign(new Error('The address of the URL is not allowed.'), {
      name: 'EgressError',
      reason: 'blocked',
      detail: 'models.example.com:443 is 10.0.0.5',
    })
    handler.onResponseError?.({} as Dispatcher.DispatchController, error)
    return true
  }
}

test.each(['gpt-x', 'thirdparty/openai_compatible/llama'])(
  '%s: a base_url whose name leads to a forbidden address fails the run, and is named',
  async (model) => {
    const agency = new Agency({ entryPoint: new Agent({ name: 'Solo', instructions: 'x', model }) })
    const events: RunEvent[] = []
    const clientConfig = { base_url: 'https://models.example.com/v1', api_key: 'sk-caller' }

    const ended = await runAgency(
      agency,
      { message: 'hi', history: [], clientConfig },
      {
        runId: 'run-1',
        sink: { emit: (event) => void events.push(event), ready: () => undefined },
        control: new RunControl(),
        environment: runEnvironment({ defaultModel: 'gpt-x', callerDispatcher: new RefusingDispatcher() }),
      },
    )

    expect(ended.error).toEqual({
      code: 'invalid_configuration',
      message: 'client_config.base_url: The address of the URL is not allowed.',
    })
    expect(JSON.stringify(events)).not.toContain('10.0.0.5')
  },
)
