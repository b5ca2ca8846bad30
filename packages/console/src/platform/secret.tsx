import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { copy } from '../ui/toasts.tsx'

type Props = {
  readonly title: string
  /** What the secret is good for. */
  readonly about?: string
  /** Null: the answer that had it was lost. */
  readonly secret: string | null
  readonly onClose: () => void
}

/** Something that is shown this once. */
export function Secret({ title, about = '', secret, onClose }: Props) {
  const note = secret === null ? undefined : `${about} Store it now. It is not shown again.`.trim()
  return (
    <Dialog open onClose={onClose} title={title} about={note}>
      {secret === null ? (
        <p>
          It was made, but the answer with its secret was lost on the way. Remove it from the list, and make another.
        </p>
      ) : (
        <div className="flex flex-col gap-3">
          <code className="rounded-lg bg-raised p-3 text-xs [overflow-wrap:anywhere]">{secret}</code>
          <Button look="primary" icon="copy" onClick={() => void copy(secret, 'Secret')}>
            Copy
          </Button>
        </div>
      )}
    </Dialog>
  )
}
