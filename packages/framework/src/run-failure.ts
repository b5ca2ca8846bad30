import {
  AgentsError,
  InputGuardrailTripwireTriggered,
  MaxTurnsExceededError,
  ModelBehaviorError,
  OutputGuardrailTripwireTriggered,
} from '#agents-core'
import { ConfigError, RUN_ERRORS, type RunError, type RunErrorCode } from '@bureau/protocol'
import { guidanceOf } from './guardrail-guidance.ts'
import { HistoryError } from './history.ts'
import { ToolServerError } from './mcp/connections.ts'
import { ModelError } from './models/transport.ts'
import { RunStopped } from './run-control.ts'

/** A tool waits for an approval, and there is nobody who could give it. */
export class ApprovalRequired extends Error {
  override readonly name = 'ApprovalRequired'

  constructor(tools: readonly string[]) {
    super(`needsApproval is not supported in runs; tools that asked for it: ${tools.join(', ')}`)
  }
}

/** Why a run failed, in a code and a sentence fit for the caller. Never the text of a foreign error. */
export function describeFailure(error: unknown): RunError {
  if (error instanceof ModelError) return { code: error.code, message: error.message }
  if (error instanceof ToolServerError) return { code: 'tool_server_unavailable', message: error.message }
  if (error instanceof HistoryError) return { code: 'invalid_history', message: error.message }
  if (error instanceof ConfigError) return { code: 'invalid_configuration', message: error.message }
  if (error instanceof RunStopped) return plain('run_timeout')
  if (error instanceof MaxTurnsExceededError) return plain('max_turns_exceeded')
  if (error instanceof InputGuardrailTripwireTriggered) {
    return { code: 'guardrail_tripped', message: 'Guardrail InputGuardrail triggered tripwire' }
  }
  if (error instanceof OutputGuardrailTripwireTriggered) {
    return { code: 'guardrail_tripped', message: `Guardrail OutputGuardrail triggered tripwire: ${guidanceOf(error)}` }
  }
  if (error instanceof ApprovalRequired) return plain('approval_required')
  if (error instanceof ModelBehaviorError) return plain('upstream_invalid_response')
  if (error instanceof AgentsError) return plain('run_failed')
  return plain('internal_error')
}

function plain(code: RunErrorCode): RunError {
  return { code, message: RUN_ERRORS[code].message }
}
