import { useEffect, useState } from 'react'
import { IconButton } from '../ui/button.tsx'
import { copy } from '../ui/toasts.tsx'
import type { CodeToColour, ColouredLine } from './highlight.ts'

type Props = { readonly text: string; readonly language: string; readonly settled: boolean }

/** Code, coloured as soon as it is complete and the colours are loaded. */
export function CodeBlock({ text, language, settled }: Props) {
  const lines = useColours(text, language, settled)
  return (
    <div className="overflow-hidden rounded-lg border border-line bg-raised">
      <div className="flex items-center justify-between border-b border-line pl-3">
        <span className="font-mono text-xs text-soft">{language || 'text'}</span>
        <IconButton icon="copy" label="Copy code" onClick={() => void copy(text, 'Code')} />
      </div>
      <pre tabIndex={0} className="overflow-x-auto px-3 py-2 text-[12.5px] leading-5">
        <code>{lines ? lines.map((line, at) => <Line key={at} line={line} />) : text}</code>
      </pre>
    </div>
  )
}

function Line({ line }: { readonly line: ColouredLine }) {
  return (
    <>
      {line.map(({ content, color }, at) => (
        <span key={at} style={{ color }}>
          {content}
        </span>
      ))}
      {'\n'}
    </>
  )
}

function useColours(text: string, language: string, settled: boolean): readonly ColouredLine[] | undefined {
  const [coloured, setColoured] = useState<{ text: string; lines: readonly ColouredLine[] }>()
  useEffect(() => {
    if (!settled || language === '') return undefined
    let wanted = true
    void coloursOf({ text, language }).then((lines) => wanted && lines && setColoured({ text, lines }))
    return () => {
      wanted = false
    }
  }, [text, language, settled])
  return coloured?.text === text ? coloured.lines : undefined
}

let worker: Worker | undefined

/** Without an answer, e.g. because the worker could not be loaded, the text stays as it is. */
function coloursOf(code: CodeToColour): Promise<readonly ColouredLine[] | undefined> {
  worker ??= new Worker(new URL('./highlight.ts', import.meta.url), { type: 'module' })
  const { port1, port2 } = new MessageChannel()
  const answered = new Promise<readonly ColouredLine[] | undefined>((resolve) => {
    port1.addEventListener('message', ({ data }) => {
      port1.close()
      resolve(data)
    })
  })
  port1.start()
  worker.postMessage(code, [port2])
  return answered
}
