import { type ReactNode, useEffect, useRef } from 'react'
import { RequestFailed } from '../server/request.ts'
import { isAbout, RefusalContext } from './field.tsx'
import { Failure } from './page.tsx'

export type FormProps = {
  readonly onSubmit: () => void
  /** Why the server refused what was sent. */
  readonly refusal?: unknown
  readonly children: ReactNode
  /** Below the fields. */
  readonly buttons: ReactNode
  readonly className?: string
}

/** A refusal is shown at its fields, and the first of them gets the focus; what is about none of them stands above the buttons. */
export function Form({ onSubmit, refusal, children, buttons, className = '' }: FormProps) {
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (refusal) form.current?.querySelector<HTMLElement>('[aria-invalid]')?.focus()
  }, [refusal])
  return (
    <form
      ref={form}
      className={`flex flex-col gap-4 ${className}`}
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit()
      }}
    >
      <RefusalContext value={refusal}>{children}</RefusalContext>
      {refusal != null && !isShownAtFields(refusal, form.current) && <Failure error={refusal} />}
      {buttons}
    </form>
  )
}

/** Whether each part of a refusal is about a field of the form. */
function isShownAtFields(refusal: unknown, form: HTMLFormElement | null): boolean {
  const names = [...(form?.elements ?? [])].map((element) => element.getAttribute('name'))
  const fields = refusal instanceof RequestFailed ? refusal.fields : []
  return fields.length > 0 && fields.every(({ path }) => names.some((name) => name !== null && isAbout(path, name)))
}
