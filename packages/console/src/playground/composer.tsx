import { type ClipboardEvent, type KeyboardEvent, type ReactNode, useRef, useState } from 'react'
import { Button, IconButton } from '../ui/button.tsx'
import { bytes } from '../ui/format.ts'
import { Icon } from '../ui/icons.tsx'
import { Menu } from '../ui/menu.tsx'
import { failedToast } from '../ui/toasts.tsx'
import type { CancelMode } from '@bureau/protocol'
import { type ChatFile, type Draft, NO_DRAFT } from '../chats/chat.ts'
import type { ChatSession } from '../chats/chat-session.ts'
import { useDraft } from '../chats/sessions.ts'

type Stop = (mode: CancelMode) => Promise<void>

type Props = {
  /** Keeps what is being written. */
  readonly session: ChatSession
  /** A run goes on. */
  readonly busy: boolean
  readonly send: (draft: Draft) => void
  readonly stop: Stop
  readonly showOptions?: () => void
  /** Goes on by voice. */
  readonly talk?: (() => void) | undefined
  /** Other files than pictures cannot be sent. */
  readonly picturesOnly?: boolean
  readonly label?: string
}

const NO_FILES = 'The platform takes pictures with a message. Upload other files on the page Files.'

/** Where messages are written. Enter sends, Shift+Enter begins a new line, Escape stops the run. */
export function Composer(props: Props) {
  const { session, busy, stop, showOptions, talk, picturesOnly = false, label = 'Message' } = props
  const draft = useDraft(session)
  const { text, files } = draft

  const send = (): void => {
    // Enter may come before what is written is drawn.
    const written = session.draft.value
    if (isEmpty(written)) return
    props.send(written)
    session.write(() => NO_DRAFT)
  }
  const add = (list: Iterable<File>): void => {
    const added = [...list]
    if (picturesOnly && added.some(({ type }) => !type.startsWith('image/'))) return failedToast(NO_FILES)
    attach(session, added).catch(failedToast)
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Escape' && busy) void stop('immediate').catch(failedToast)
    if (event.key !== 'Enter' || event.shiftKey) return
    event.preventDefault()
    send()
  }
  const onPaste = (event: ClipboardEvent<HTMLTextAreaElement>): void => {
    const pasted = event.clipboardData.getData('text')
    if (pasted.length >= LONG) event.currentTarget.dir = directionOf(text + pasted)
    if (event.clipboardData.files.length > 0) add(event.clipboardData.files)
  }
  return (
    <DropZone add={add}>
      <Files session={session} files={files} />
      <textarea
        data-item
        dir={directionOf(text)}
        aria-label={label}
        rows={1}
        placeholder={
          busy ? 'Write the next message; it is sent when the run has ended' : 'Write a message, or drop files here'
        }
        className="field-sizing-content max-h-60 min-h-9 w-full resize-none bg-transparent px-2 py-1.5 outline-none placeholder:text-soft"
        value={text}
        onChange={({ target }) => session.write((draft) => ({ ...draft, text: target.value }))}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      />
      <div className="flex items-center gap-1">
        <AttachButton add={add} />
        {showOptions && <IconButton icon="settings" label="Options of this chat" onClick={showOptions} />}
        {talk && <IconButton icon="microphone" label="Talk" disabled={busy} onClick={talk} />}
        <span className="flex-1" />
        {busy && <StopButtons stop={stop} />}
        <Button look="primary" icon="send" disabled={isEmpty(draft)} onClick={send}>
          {busy ? 'Queue' : 'Send'}
        </Button>
      </div>
    </DropZone>
  )
}

const isEmpty = ({ text, files }: Draft): boolean => text.trim() === '' && files.length === 0

const LONG = 10_000

/** The browser goes through all of a text for its direction at each letter, which takes seconds for a megabyte. */
const directionOf = (text: string): 'auto' | 'ltr' | 'rtl' =>
  text.length < LONG ? 'auto' : /^\P{L}*[\u0590-\u08FF]/u.test(text.slice(0, LONG)) ? 'rtl' : 'ltr'

/** Files may be dropped on all of it; all else is the browser's, which writes text into the field. */
function DropZone({ add, children }: { readonly add: (files: Iterable<File>) => void; readonly children: ReactNode }) {
  const [dragging, setDragging] = useState(false)
  return (
    <div
      className={`card mx-auto w-full max-w-3xl p-2 shadow-sm focus-within:border-strong-line ${dragging ? 'border-accent! bg-accent-soft' : ''}`}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes('Files')) return
        event.preventDefault()
        setDragging(true)
      }}
      onDragLeave={() => setDragging(false)}
      onDrop={(event) => {
        setDragging(false)
        if (!event.dataTransfer.types.includes('Files')) return
        event.preventDefault()
        add(event.dataTransfer.files)
      }}
    >
      {children}
    </div>
  )
}

function StopButtons({ stop }: { readonly stop: Stop }) {
  return (
    <div className="flex items-center">
      <Button
        icon="stop"
        look="danger"
        className="rounded-r-none"
        onClick={() => void stop('immediate').catch(failedToast)}
      >
        Stop
      </Button>
      <Menu
        label="Other ways to stop"
        className="mr-1 inline-flex min-h-8 items-center rounded-r-lg border border-l-0 border-bad/40 bg-panel px-1.5 text-bad hover:bg-bad-soft"
        items={[
          { label: 'Stop now', icon: 'stop', act: () => void stop('immediate').catch(failedToast) },
          {
            label: 'Stop after this turn',
            icon: 'clock',
            act: () => void stop('after_turn').catch(failedToast),
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

function Files({ session, files }: Pick<Props, 'session'> & Pick<Draft, 'files'>) {
  const remove = (file: ChatFile): void =>
    session.write((draft) => ({ ...draft, files: draft.files.filter((each) => each !== file) }))
  if (files.length === 0) return null
  return (
    <ul className="flex flex-wrap gap-1.5 px-1 pb-1">
      {files.map((file, at) => (
        <li key={at} className="flex items-center gap-1.5 rounded-lg bg-raised py-0.5 pl-2 text-xs">
          <Icon name="file" size={14} />
          <span className="max-w-48 truncate">{file.name}</span>
          <span className="text-soft">{bytes(file.size)}</span>
          <IconButton icon="close" label={`Remove ${file.name}`} className="size-6" onClick={() => remove(file)} />
        </li>
      ))}
    </ul>
  )
}

/** A request may have 32 MiB, and base64 makes a third more of a file. */
const MAX_BYTES = 20_000_000

/** Adds files to what is being written. @throws Error they are too large together, or cannot be read. */
async function attach(session: ChatSession, added: readonly File[]): Promise<void> {
  const total = [...session.draft.value.files, ...added].reduce((sum, { size }) => sum + size, 0)
  if (total > MAX_BYTES)
    throw new Error(`Files of a message may have ${bytes(MAX_BYTES)} together; these have ${bytes(total)}.`)
  const read = await Promise.all(added.map(readFile))
  session.write((draft) => ({ ...draft, files: merged(draft.files, read) }))
}

/** One of the same name takes the place of the other. */
const merged = (before: readonly ChatFile[], added: readonly ChatFile[]): readonly ChatFile[] => [
  ...new Map([...before, ...added].map((file) => [file.name, file])).values(),
]

/** As a data URL. */
function readFile(file: File): Promise<ChatFile> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    const { name, size } = file
    const type = file.type || 'application/octet-stream'
    reader.addEventListener('load', () => resolve({ name, size, type, data: reader.result as string }))
    reader.addEventListener('error', () => reject(new Error(`${name} cannot be read.`)))
    reader.readAsDataURL(file)
  })
}
