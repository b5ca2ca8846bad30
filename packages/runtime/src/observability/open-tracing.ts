import type { Tracer, TracerProvider } from '@opentelemetry/api'
import { ConfigError } from '@bureau/protocol'

export type TracingOptions = {
  /**
   * Where traces go, by OTLP over HTTP, e.g. `http://collector:4318`; `/v1/traces` is added. Default: what
   * OTEL_EXPORTER_OTLP_ENDPOINT says, else `http://localhost:4318`. Needs the optional packages of OpenTelemetry's SDK.
   */
  readonly endpoint?: string
  /** A provider that the program has set up itself, instead of `endpoint`. Closing it is the program's affair. */
  readonly provider?: TracerProvider
  /** True: what people, models and tools say becomes part of the trace. Default false. */
  readonly traceContent?: boolean
}

export type OpenTracing = { readonly tracer: Tracer; readonly close: () => Promise<void> }

const NAME = 'bureau'
const PACKAGES = ['@opentelemetry/sdk-trace@3', '@opentelemetry/resources@3', '@opentelemetry/exporter-trace-otlp-http']

/**
 * Opens the tracer of one server. Nothing is registered globally.
 *
 * @param onLost - Told why spans could not be sent, once until some could be sent again.
 * @throws ConfigError the endpoint is not a URL, or the optional packages are not installed.
 */
export async function openTracing(
  options: TracingOptions,
  version: string,
  onLost: (error: unknown) => void,
): Promise<OpenTracing> {
  if (options.provider) return { tracer: options.provider.getTracer(NAME, version), close: async () => {} }
  const url = options.endpoint === undefined ? undefined : tracesUrl(options.endpoint)
  const { sdk, resources, otlp } = await loadSdk()
  const exporter = new otlp.OTLPTraceExporter(url === undefined ? {} : { url })
  const provider = new sdk.TracerProvider({
    resource: resources
      .resourceFromAttributes({ 'service.name': 'bureau', 'service.version': version })
      // The operator's own words win: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
      .merge(
        resources.detectResources({
          detectors: [resources.resourceAttributesEnvDetector, resources.serviceNameEnvDetector],
        }),
      ),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: tellingOfLosses(exporter, onLost) })],
  })
  return { tracer: provider.getTracer(NAME, version), close: () => provider.shutdown() }
}

type Exporter = Pick<
  InstanceType<Awaited<ReturnType<typeof loadSdk>>['otlp']['OTLPTraceExporter']>,
  'export' | 'shutdown'
>

/** The SDK says nothing of what it could not send. */
function tellingOfLosses(exporter: Exporter, onLost: (error: unknown) => void): Exporter {
  let isLosing = false
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        const { error } = result
        if (error && !isLosing) onLost(error)
        isLosing = error !== undefined
        done(result)
      }),
    shutdown: () => exporter.shutdown(),
  }
}

function tracesUrl(endpoint: string): string {
  if (!URL.canParse(endpoint)) throw new ConfigError(`tracing.endpoint: "${endpoint}" is not a URL.`)
  return `${endpoint.replace(/\/+$/, '')}/v1/traces`
}

async function loadSdk() {
  try {
    const [sdk, resources, otlp] = await Promise.all([
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-http'),
    ])
    return { sdk, resources, otlp }
  } catch (cause) {
    throw new ConfigError(`tracing: install the optional packages first: npm install ${PACKAGES.join(' ')}`, { cause })
  }
}
