import { Dialog as Base } from '@base-ui/react/dialog'
import { type ReactNode, useRef, useState } from 'react'
import { Button, type ButtonProps, IconButton } from './button.tsx'
import { Form, type FormProps } from './form.tsx'

type Props = {
  readonly open: boolean
  readonly onClose: () => void
  readonly title: string
  /** One sentence below the title. */
  readonly about?: ReactNode
  readonly wide?: boolean
  readonly children: ReactNode
}

/** Something to do before one goes on. Escape and a click beside it close it. */
export function Dialog({ open, onClose, title, about, wide = false, children }: Props) {
  const content = useRef<HTMLDivElement>(null)
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-black/40" />
        <Base.Popup
          initialFocus={(by) => (by === 'touch' ? true : (firstField(content.current) ?? true))}
          className={`card fixed top-1/2 left-1/2 z-40 flex max-h-[90dvh] w-[calc(100vw-1.5rem)] -translate-x-1/2 -translate-y-1/2 flex-col shadow-2xl ${wide ? 'max-w-3xl' : 'max-w-lg'}`}
        >
          <div
            className={`flex justify-between gap-3 border-b ${about ? 'items-start' : 'items-center'} border-line px-4 py-3`}
          >
            <div className="min-w-0">
              <Base.Title className="font-semibold">{title}</Base.Title>
              {about && <Base.Description className="text-[13px] text-soft">{about}</Base.Description>}
            </div>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </div>
          <div ref={content} className="min-h-0 overflow-y-auto px-4 py-4">
            {children}
          </div>
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}

/** Whoever opens a form wants to fill it in. */
const firstField = (content: HTMLElement | null): HTMLElement | null | undefined =>
  content?.querySelector<HTMLElement>('input, select, textarea')

type FormDialogProps = Omit<Props, 'open' | 'wide'> &
  Pick<FormProps, 'onSubmit'> & {
    /** What its button says. */
    readonly action: string
    /** Whether there is all that it needs. */
    readonly ready: boolean
    /** What becomes of it at the server. */
    readonly sent?: { readonly isPending: boolean; readonly error: unknown }
  }

/** Fields to fill in, and the button that sends them. */
export function FormDialog({ action, ready, onSubmit, sent, children, ...dialog }: FormDialogProps) {
  const button = (
    <Button look="primary" type="submit" disabled={!ready || sent?.isPending}>
      {action}
    </Button>
  )
  return (
    <Dialog open {...dialog}>
      <Form onSubmit={onSubmit} refusal={sent?.error} buttons={button}>
        {children}
      </Form>
    </Dialog>
  )
}

type DialogButtonProps = Pick<ButtonProps, 'icon' | 'look'> & {
  readonly label: string
  readonly children: (close: () => void) => ReactNode
}

/** A button that opens a dialog. Each time it begins anew. */
export function DialogButton({ label, children, ...button }: DialogButtonProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <Button {...button} onClick={() => setOpen(true)}>
        {label}
      </Button>
      {isOpen && children(() => setOpen(false))}
    </>
  )
}
