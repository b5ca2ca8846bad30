import { coloured, plain } from '../terminal-text.ts'
import type { TypedLines } from './typed-lines.ts'

/** A call that waits for the user, as the server has sent it. */
export type WaitingCall = {
  readonly call_id: string
  readonly tool: string
  readonly arguments: string
  readonly agent: string
  readonly edit: boolean
  readonly token?: string
}

export type ApprovalAnswer = {
  call_id: string
  token: string
  approve: boolean
  reason?: string
  arguments?: string
}

/** Asks about each call: yes, no, or, where the tool allows it, other arguments. The end of the input leaves the rest undecided. */
export async function decideCalls(calls: readonly WaitingCall[], lines: TypedLines): Promise<ApprovalAnswer[]> {
  const answers: ApprovalAnswer[] = []
  for (const call of calls) {
    const [agent, name] = [coloured('bold', plain(call.agent)), coloured('bold', plain(call.tool))]
    console.error(`${agent} wants to use ${name} ${plain(call.arguments)}`)
    const decision = await decide(call, async (question, text) =>
      (await lines.readAnswer(coloured('bold', question), text))?.trim(),
    )
    if (decision) answers.push({ call_id: call.call_id, token: call.token ?? '', ...decision })
  }
  return answers
}

type Decision = Pick<ApprovalAnswer, 'approve' | 'reason' | 'arguments'>

/** @param ask - Undefined at the end of the input. `text` is put into the line, to be changed. */
async function decide(
  { edit, arguments: written }: WaitingCall,
  ask: (question: string, text?: string) => Promise<string | undefined>,
): Promise<Decision | undefined> {
  for (;;) {
    const answer = await ask(`approve? [y]es, [n]o${edit ? ', [e]dit' : ''}> `)
    if (answer === undefined) return undefined
    if (/^y(es)?$/i.test(answer)) return { approve: true }
    if (/^no?$/i.test(answer)) {
      const reason = await ask('why? (may be empty)> ')
      return { approve: false, ...(reason ? { reason } : {}) }
    }
    if (edit && /^e(dit)?$/i.test(answer)) {
      const changed = await ask('arguments> ', written)
      if (changed !== undefined && isObject(changed)) return { approve: true, arguments: changed }
      console.error('The arguments must be a JSON object.')
      continue
    }
    console.error(`Type y to carry the call out, n to reject it${edit ? ', e to change its arguments first' : ''}.`)
  }
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
  } catch {
    return false
  }
}
