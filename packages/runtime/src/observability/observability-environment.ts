import { z } from 'zod'

/** What both servers read of the environment to know what to tell their operators. */
export const ObservabilityEnvironment = {
  BUREAU_METRICS: z
    .stringbool('must be true or false')
    .default(false)
    .describe(
      'true: metrics for Prometheus, at `/metrics` of the self-hosted server and `/v1/admin/metrics` of the platform.',
    ),
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .url({ protocol: /^https?$/, error: 'must be an address like http://collector:4318' })
    .optional()
    .describe('Collector that gets traces of runs (OTLP over HTTP).'),
}
