const EVENT_STREAM = /^text\/event-stream\b/i

/**
 * The same response with a limit, for a body that will be read as a whole although its sender is not trusted.
 *
 * A body, or each event of an event stream, that is longer than `maxBytes` breaks off with `tooLong`, by default a `TypeError`. Bytes are
 * counted as they are read, thus after decompression: a few kilobytes of gzip can hold gigabytes.
 */
export function limitedResponse(
  response: Response,
  maxBytes: number,
  tooLong: () => Error = () => new TypeError(`The server sent more than ${maxBytes} bytes.`),
): Response {
  if (!response.body) return response
  const { status, statusText, headers } = response
  const isEventStream = EVENT_STREAM.test(headers.get('content-type') ?? '')
  const limit = limitBytes(maxBytes, isEventStream ? eventCounter() : totalCounter(), tooLong)
  return new Response(response.body.pipeThrough(limit), { status, statusText, headers })
}

/** Is given every chunk and answers how many bytes the reader has to keep by now. */
type Counter = (chunk: Uint8Array) => number

function limitBytes(maxBytes: number, count: Counter, tooLong: () => Error): TransformStream<Uint8Array, Uint8Array> {
  return new TransformStream({
    transform(chunk, controller) {
      if (count(chunk) > maxBytes) throw tooLong()
      controller.enqueue(chunk)
    },
  })
}

function totalCounter(): Counter {
  let size = 0
  return (chunk) => (size += chunk.byteLength)
}

/** Counts anew behind each event, which an empty line ends, whichever of the three line breaks it has. */
function eventCounter(): Counter {
  let size = 0
  // An empty line may be divided between two chunks.
  let tail = Buffer.alloc(0)
  return (chunk) => {
    const recent = Buffer.concat([tail, chunk])
    const end = Math.max(...['\n\n', '\r\r', '\n\r\n'].map((empty) => recent.lastIndexOf(empty)))
    tail = recent.subarray(-3)
    size = end === -1 ? size + chunk.byteLength : recent.byteLength - end
    return size
  }
}
