import { bytes } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'

type Props = {
  readonly text: string
  readonly files?: readonly { readonly name: string; readonly size?: number }[]
}

/** What a user has written, below the files that went with it. */
export function UserMessage({ text, files = [] }: Props) {
  return (
    <div className="flex min-w-0 flex-col items-end gap-1.5">
      {files.map(({ name, size }, at) => (
        <span key={at} className="flex items-center gap-1.5 rounded-lg border border-line bg-panel px-2 py-1 text-xs">
          <Icon name="file" size={14} />
          {name}
          {size !== undefined && <span className="text-soft">{bytes(size)}</span>}
        </span>
      ))}
      {text !== '' && (
        <p
          dir="auto"
          className="rounded-2xl rounded-br-md bg-accent-soft px-3.5 py-2 whitespace-pre-wrap [overflow-wrap:anywhere]"
        >
          {text}
        </p>
      )}
    </div>
  )
}
