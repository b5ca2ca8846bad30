import type { UsageByModel } from '@bureau/protocol'
import type { Metrics } from './metrics.ts'

/** Told what a voice session spends, and when it ends. */
export interface SessionObserver {
  spent(entry: Omit<UsageByModel, 'priced'>): void
  end(): void
}

/** Counts one voice session, from now on. `agency` is the agency's name in the routes. */
export function countSession(metrics: Metrics, agency: string): SessionObserver {
  const startedAt = performance.now()
  metrics.sessions.inc({ agency })
  return {
    spent: ({ agent, model, usage }) => metrics.countUsage({ agency, agent, model }, usage),
    end: () => {
      metrics.sessions.dec({ agency })
      metrics.sessionSeconds.observe({ agency }, (performance.now() - startedAt) / 1_000)
    },
  }
}
