import { type ClipboardEvent, type KeyboardEvent, type ReactNode, useRef, useState } from 'react'
import { Button, IconButton } from '../ui/button.tsx'
import { bytes } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { Menu } from '../ui/menu.tsx'
import { failedToast } from '../ui/toasts.tsx'
import type { ChatFile } from '../chats/chat.ts'
import type { ChatSession, SessionView } from '../chats/chat-session.ts'
import { readFiles } from '../chats/read-files.ts'

type Props = { readonly session: ChatSession; readonly view: SessionView; readonly onOptions: () => void }

/** Where messages are written. Enter sends, Shift+Enter begins a new line, Escape stops the run. */
export function Composer({ session, view, onOptions }: Props) {
  const [text, setText] = useState('')
  const [files, setFiles] = useState<readonly ChatFile[]>([])
  const isEmpty = text.trim() === '' && files.length === 0

  const send = (): void => {
    if (isEmpty) return
    session.send({ text, files })
    setText('')
    setFiles([])
  }
  const add = (list: Iterable<File>): void => void readFiles(list, files).then(setFiles, failedToast)
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && view.busy) void session.cancel('immediate').catch(failedToast)
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    send()
  }
  const onPaste = (event: ClipboardEvent): void => {
    if (event.clipboardData.files.length > 0) add(event.clipboardData.files)
  }
  return (
    <DropZone add={add}>
      <Files files={files} remove={(name) => setFiles(files.filter((file) => file.name !== name))} />
      <textarea
        aria-label="Message"
        rows={1}
        placeholder={
          view.busy
            ? 'Write the next message; it is sent when the run has ended'
            : 'Write a message, or drop files here'
        }
        className="field-sizing-content max-h-60 min-h-9 w-full resize-none bg-transparent px-2 py-1.5 outline-none placeholder:text-soft"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <div className="flex items-center gap-1">
        <AttachButton add={add} />
        <IconButton icon="settings" label="Options of this chat" onClick={onOptions} />
        <span className="flex-1" />
        {view.busy && <StopButtons session={session} />}
        <Button look="primary" icon="send" disabled={isEmpty} onClick={send}>
          {view.busy ? 'Queue' : 'Send'}
        </Button>
      </div>
    </DropZone>
  )
}

/** Files may be dropped on all of it. */
function DropZone({ add, children }: { readonly add: (files: Iterable<File>) => void; readonly children: ReactNode }) {
  const [dragging, setDragging] = useState(false)
  return (
    <div
      className={`card mx-auto w-full max-w-3xl p-2 shadow-sm focus-within:border-strong-line ${dragging ? 'border-accent! bg-accent-soft' : ''}`}
      onDragOver={(event) => {
        event.preventDefault()
        setDragging(true)
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        event.preventDefault()
        setDragging(false)
        add(event.dataTransfer.files)
      }}
    >
      {children}
    </div>
  )
}

function StopButtons({ session }: { readonly session: ChatSession }) {
  return (
    <div className="flex items-center">
      <Button
        icon="stop"
        look="danger"
        className="rounded-r-none"
        onClick={() => void session.cancel('immediate').catch(failedToast)}
      >
        Stop
      </Button>
      <Menu
        label="Other ways to stop"
        className="mr-1 inline-flex min-h-8 items-center rounded-r-lg border border-l-0 border-bad/40 bg-panel px-1.5 text-bad hover:bg-bad-soft"
        items={[
          { label: 'Stop now', icon: 'stop', act: () => void session.cancel('immediate').catch(failedToast) },
          {
            label: 'Stop after this turn',
            icon: 'clock',
            act: () => void session.cancel('after_turn').catch(failedToast),
          },
        ]}
      >
        <Icon name="chevron" size={14} className="rotate-90" />
      </Menu>
    </div>
  )
}

function AttachButton({ add }: { readonly add: (files: Iterable<File>) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <IconButton icon="attach" label="Attach files" onClick={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        aria-label="Files"
        className="hidden"
        onChange={(event) => {
          add([...(event.target.files ?? [])])
          event.target.value = ''
        }}
      />
    </>
  )
}

function Files({ files, remove }: { readonly files: readonly ChatFile[]; readonly remove: (name: string) => void }) {
  if (files.length === 0) return null
  return (
    <ul className="flex flex-wrap gap-1.5 px-1 pb-1">
      {files.map(({ name, size }) => (
        <li key={name} className="flex items-center gap-1.5 rounded-lg bg-raised py-0.5 pl-2 text-xs">
          <Icon name="file" size={14} />
          <span className="max-w-48 truncate">{name}</span>
          <span className="text-soft">{bytes(size)}</span>
          <IconButton icon="close" label={`Remove ${name}`} className="size-6" onClick={() => remove(name)} />
        </li>
      ))}
    </ul>
  )
}
