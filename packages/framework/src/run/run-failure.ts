import { ConfigError, RUN_ERRORS, type RunError, type RunErrorCode } from '@bureau/protocol'
import { CallbackFailed } from '../agency/callback.ts'
import { HistoryError } from '../history/history.ts'
import { ToolServerError } from '../mcp/tool-server-error.ts'
import { ModelError } from '../models/model-error.ts'
import { GuardrailTripped, RunFailed, RunStopped } from './run-errors.ts'

/** Why a run failed, in a code and a sentence fit for the caller. Never the text of a foreign error. */
export function describeFailure(error: unknown): RunError {
  if (error instanceof ModelError) return { code: error.code, message: error.message }
  if (error instanceof ToolServerError) return { code: 'tool_server_unavailable', message: error.message }
  if (error instanceof HistoryError) return { code: 'invalid_history', message: error.message }
  if (error instanceof ConfigError) return { code: 'invalid_configuration', message: error.message }
  if (error instanceof RunStopped) return plain('run_timeout')
  if (error instanceof RunFailed) return plain(error.code)
  if (error instanceof CallbackFailed) return plain('run_failed')
  if (error instanceof GuardrailTripped) return { code: 'guardrail_tripped', message: sentenceOf(error) }
  return plain('internal_error')
}

function sentenceOf({ side, guidance }: GuardrailTripped): string {
  if (side === 'input') return 'Guardrail InputGuardrail triggered tripwire'
  return `Guardrail OutputGuardrail triggered tripwire: ${guidance}`
}

function plain(code: RunErrorCode): RunError {
  return { code, message: RUN_ERRORS[code].message }
}

/** How a trace ends a step that has thrown: `cancelled`, or the code of the failure. */
export function errorCodeOf(error: unknown): string {
  if (error instanceof RunStopped && error.reason !== 'timeout') return 'cancelled'
  return describeFailure(error).code
}

type LoggedFailure = { readonly errorCode: string; readonly reason: string } | { readonly err: unknown }

/** A failure as a log has it: where a rule of the run itself has ended it, the place in this code says nothing. */
export function loggedFailure(error: unknown): LoggedFailure {
  const isRule = error instanceof RunFailed || error instanceof RunStopped || error instanceof GuardrailTripped
  const errorCode = errorCodeOf(error)
  if (!isRule || errorCode === 'internal_error') return { err: error }
  const { message, cause } = error
  return { errorCode, reason: cause instanceof Error ? `${message} (${cause.message})` : message }
}
