import { isFields } from '@bureau/protocol'
import type { Approval, Run } from '@bureau/client'
import { coloured, plain } from '../terminal-text.ts'
import type { TypedLines } from './typed-lines.ts'

/**
 * Asks about each call that a run waits for: yes, no, or, where the tool allows it, other arguments.
 *
 * @returns The run that goes on; null: the input has ended before all are decided on, and nothing is carried out.
 */
export async function decideCalls(run: Run, calls: readonly Approval[], lines: TypedLines): Promise<Run | null> {
  let next: Run | null = null
  for (const call of calls) {
    const [agent, name] = [coloured('bold', plain(call.agent)), coloured('bold', plain(call.tool))]
    console.error(`${agent} wants to use ${name} ${plain(call.arguments)}`)
    const decide = await decisionOn(call, async (question, text) =>
      (await lines.readAnswer(coloured('bold', question), text))?.trim(),
    )
    if (!decide) return null
    next = await decide(run)
  }
  return next
}

type Decide = (run: Run) => Promise<Run | null>

/** @param ask - Undefined at the end of the input. `text` is put into the line, to be changed. */
async function decisionOn(
  { call_id: id, edit, arguments: written }: Approval,
  ask: (question: string, text?: string) => Promise<string | undefined>,
): Promise<Decide | undefined> {
  for (;;) {
    const answer = await ask(`approve? [y]es, [n]o${edit ? ', [e]dit' : ''}> `)
    if (answer === undefined) return undefined
    if (/^y(es)?$/i.test(answer)) return (run) => run.approve(id)
    if (/^no?$/i.test(answer)) {
      const reason = await ask('why? (may be empty)> ')
      return (run) => run.reject(id, reason || undefined)
    }
    if (edit && /^e(dit)?$/i.test(answer)) {
      const changed = await ask('arguments> ', written)
      if (changed !== undefined && isJsonObject(changed)) return (run) => run.approve(id, { arguments: changed })
      console.error('The arguments must be a JSON object.')
      continue
    }
    console.error(`Type y to carry the call out, n to reject it${edit ? ', e to change its arguments first' : ''}.`)
  }
}

export function isJsonObject(text: string): boolean {
  try {
    return isFields(JSON.parse(text))
  } catch {
    return false
  }
}
