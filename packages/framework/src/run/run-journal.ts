import type { Message, UsageByModel } from '@bureau/protocol'
import type { RunState } from './run-state.ts'

/** Keeps what must outlive the process. `stored` and `counted` never wait and never throw. */
export interface RunJournal {
  /** True: what is kept is the history of the next run. Otherwise a client keeps it, and leaves out what was not finished. */
  readonly keepsConversation?: boolean
  /** An item is complete and stays, in the order of `new_messages`. */
  stored(message: Message): void
  /** A model has answered once; `usage` is that of this answer alone. */
  counted(answer: UsageByModel): void
  /**
   * A step is done, or something is about to be done that must not be done twice. Resolves when all that came before is
   * kept together with this state; until then the run neither shows the step nor goes on. Undefined: the run cannot be
   * taken up elsewhere, and goes on at once. After the last step of a run it is not called: the run's end is next.
   *
   * It rejects when the run is no longer this process's: then nothing more is done.
   */
  commit(state: RunState): Promise<void> | undefined
}

/** A run that another process has worked on before. */
export type RunResume = {
  /** What was committed last; null: nothing was, so the run begins anew. */
  readonly state: RunState | null
  /** What the journal has kept of the run, in its order. */
  readonly messages: readonly Message[]
  readonly usage: readonly UsageByModel[]
  /** How many processes have worked on the run, this one included. */
  readonly attempt: number
  /** Items of which readers have seen something, and which will never be finished. */
  readonly withdrawn: readonly string[]
  /** True: the process has died, so what it was asking models then is counted as an estimate. */
  readonly lost: boolean
}
