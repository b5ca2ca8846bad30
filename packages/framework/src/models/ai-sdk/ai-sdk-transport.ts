import { fieldsOf } from '@bureau/protocol'
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from '@ai-sdk/provider'
import { causesOf } from '../../causes.ts'
import { toModelError } from '../model-failure.ts'
import { ResponseEventWriter } from '../response-events.ts'
import { isTransient, parseRetryAfter, RetryableError, untilAborted, withRetries } from '../retries.ts'
import { ModelError } from '../model-error.ts'
import type { ModelCallObserver, ResponsesTransport } from '../../agency/model-object.ts'
import { toCallOptions } from './call-options.ts'
import { type FileAccess, fileDownloads, withFiles } from './file-downloads.ts'
import { type LanguageModel, languageModelName } from '../../agency/language-model.ts'
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
    const opening = { object, model, options, observer, signal }
    const reader = await withRetries(signal, () => openStream(opening))
    const usedCallIds = request.input.map((item) => item.call_id ?? '')
    const parts = new StreamParts(new ResponseEventWriter(observer, request), modelKey(object), usedCallIds)
    await readStream(reader, { ...opening, parts })
  }
}

type PartReader = ReadableStreamDefaultReader<LanguageModelV4StreamPart>

type Opening = {
  readonly object: LanguageModel
  readonly model: ModelV4
  readonly options: LanguageModelV4CallOptions
  readonly observer: ModelCallObserver
  readonly signal: AbortSignal
}

async function openStream({ object, model, options, observer, signal }: Opening): Promise<PartReader> {
  observer.onSent?.()
  try {
    const { stream } = await untilAborted(model.doStream(options), signal)
    return stream.getReader()
  } catch (error) {
    signal.throwIfAborted()
    if (Number(fieldsOf(error)['statusCode']) >= 400) observer.onRefused?.()
    const failure = failureOf(error, object)
    if (!mayBeTriedAgain(error, failure)) throw failure
    throw new RetryableError(failure, parseRetryAfter(headerOf(error, 'retry-after')))
  }
}

/** An error that the provider did not report is a defect of the model object or its package, and must not look like one of ours. */
function failureOf(error: unknown, object: LanguageModel): ModelError {
  const known = toModelError(error)
  if (known instanceof ModelError) return known
  const message = `The client of the model ${languageModelName(object)} has failed.`
  return new ModelError('upstream_invalid_response', { message, detail: String(error), cause: error })
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

type Reading = Opening & { readonly parts: StreamParts }

/** Reads one part at a time, and none while the observer's reader is behind. */
async function readStream(reader: PartReader, reading: Reading): Promise<void> {
  const { observer, signal } = reading
  const stop = (): void => void reader.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  try {
    while (await readPart(reader, reading)) {
      const readerIsBehind = observer.onBatchEnd()
      if (readerIsBehind) await untilAborted(readerIsBehind, signal)
    }
    await observer.onBatchEnd()
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}

/** @returns Whether there was one. */
async function readPart(reader: PartReader, { object, model, parts, signal }: Reading): Promise<boolean> {
  try {
    const { done, value } = await reader.read()
    signal.throwIfAborted()
    if (done) parts.end()
    else parts.read(model.readPart(value))
    return !done
  } catch (error) {
    signal.throwIfAborted()
    throw failureOf(error, object)
  }
}
