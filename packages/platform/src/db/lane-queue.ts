import { type Lane, LANES } from './operation.ts'

/** Waiting work, by lane and then in order of arrival. */
export class LaneQueue<Job extends { readonly lane: Lane }> {
  readonly #lanes = new Map<Lane, Set<Job>>(LANES.map((lane) => [lane, new Set<Job>()]))

  add(job: Job): void {
    this.#lanes.get(job.lane)?.add(job)
  }

  /** The next job to do, removed from the queue; of the lanes that `mayStart`. */
  take(mayStart: (lane: Lane) => boolean = () => true): Job | undefined {
    for (const [lane, jobs] of this.#lanes) {
      const [job] = jobs
      if (!job || !mayStart(lane)) continue
      jobs.delete(job)
      return job
    }
    return undefined
  }

  /** False when the job was not waiting any more. */
  remove(job: Job): boolean {
    return this.#lanes.get(job.lane)?.delete(job) ?? false
  }

  /** How many jobs wait that may be refused: those of running runs never are. */
  get refusable(): number {
    let count = 0
    for (const [lane, jobs] of this.#lanes) if (lane !== 'run') count += jobs.size
    return count
  }
}
