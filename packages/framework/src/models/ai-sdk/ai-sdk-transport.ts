import { fieldsOf } from '@bureau/protocol'
import type { LanguageModelV4CallOptions } from '@ai-sdk/provider'
import { causesOf } from '../../causes.ts'
import { toModelError } from '../model-failure.ts'
import { ResponseEventWriter } from '../response-events.ts'
import { isTransient, parseRetryAfter, RetryableError, untilAborted, withRetries } from '../retries.ts'
import { ModelError } from '../model-error.ts'
import type { ModelCallObserver, ResponsesTransport } from '../../agency/model-object.ts'
import { toCallOptions } from './call-options.ts'
import { type FileAccess, fileDownloads, withFiles } from './file-downloads.ts'
import type { LanguageModel } from '../../agency/language-model.ts'
import { asVersion4, type ModelV4 } from './older-versions.ts'
import { toPrompt } from './prompt.ts'
import { modelKey } from './provider-data.ts'
import { StreamParts } from './stream-parts.ts'

/**
 * A language model of the AI SDK, of version 2, 3 or 4 of its interface.
 *
 * The model object is only asked to stream. What the AI SDK does around that is done here: failed requests are made again
 * before anything of the answer has arrived, and files are downloaded that the provider does not open itself.
 */
export function aiSdkTransport(object: LanguageModel, files: FileAccess): ResponsesTransport {
  const model = asVersion4(object)
  return async (request, { observer, signal, headers }) => {
    const download = fileDownloads(files, signal)
    const prompt = await withFiles(toPrompt(request, object), await model.supportedUrls, download)
    const options = { ...toCallOptions(request, object), prompt, headers: { ...headers }, abortSignal: signal }
    const attempts = { signal, onRefused: () => observer.onRefused?.() }
    const stream = await withRetries(attempts, () => {
      observer.onSent?.()
      return openStream(model, options, signal)
    })
    const usedCallIds = request.input.map((item) => item.call_id ?? '')
    const parts = new StreamParts(new ResponseEventWriter(observer, request), modelKey(object), usedCallIds)
    await readStream(stream, { model, parts, observer, signal })
  }
}

type PartStream = Awaited<ReturnType<ModelV4['doStream']>>['stream']

async function openStream(
  model: ModelV4,
  options: LanguageModelV4CallOptions,
  signal: AbortSignal,
): Promise<PartStream> {
  try {
    const { stream } = await untilAborted(model.doStream(options), signal)
    return stream
  } catch (error) {
    signal.throwIfAborted()
    const failure = toModelError(error)
    if (!(failure instanceof ModelError) || !mayBeTriedAgain(error, failure)) throw failure
    throw new RetryableError(failure, parseRetryAfter(headerOf(error, 'retry-after')))
  }
}

/** The AI SDK knows best of its own errors. An address that may not be called stays forbidden. */
function mayBeTriedAgain(error: unknown, failure: ModelError): boolean {
  const { isRetryable = isTransient(failure) } = fieldsOf(error)
  for (const { name, message } of causesOf(error)) {
    if (name === 'EgressError' || /redirect/.test(String(message))) return false
  }
  return isRetryable === true
}

function headerOf(error: unknown, name: string): string | undefined {
  const value = fieldsOf(fieldsOf(error)['responseHeaders'])[name]
  return typeof value === 'string' ? value : undefined
}

type Reading = {
  readonly model: ModelV4
  readonly parts: StreamParts
  readonly observer: ModelCallObserver
  readonly signal: AbortSignal
}

/** Reads one part at a time, and none while the observer's reader is behind. */
async function readStream(stream: PartStream, { model, parts, observer, signal }: Reading): Promise<void> {
  const reader = stream.getReader()
  const stop = (): void => void reader.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      signal.throwIfAborted()
      if (done) break
      parts.read(model.readPart(value))
      const readerIsBehind = observer.onBatchEnd()
      if (readerIsBehind) await untilAborted(readerIsBehind, signal)
    }
    parts.end()
    await observer.onBatchEnd()
  } catch (error) {
    signal.throwIfAborted()
    throw toModelError(error)
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}
