import { ServiceError } from '@bureau/protocol'
import { rawRoute, type Route } from '../http/route.ts'

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
const OFF = 'Nothing is counted here: BUREAU_METRICS=true switches it on.'

/** For the operator's Prometheus. */
export const metricsRoute: Route = rawRoute(
  {
    method: 'GET',
    url: '/v1/admin/metrics',
    id: 'getMetrics',
    tag: 'Operator',
    summary: 'Get the metrics of this process',
    scope: null,
    operator: true,
    success: { 200: { contentType: CONTENT_TYPE, description: 'In the text format of Prometheus.' } },
    errors: ['route_not_found'],
  },
  async ({ platform: { observability } }, reply) => {
    if (!observability.metrics) throw new ServiceError('route_not_found', { message: OFF })
    reply.type(CONTENT_TYPE)
    return observability.metrics.text()
  },
)
