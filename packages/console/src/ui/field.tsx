import {
  createContext,
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useContext,
  useId,
} from 'react'
import { RequestFailed } from '../server/request.ts'

/** Why the server refused a form: each of its fields shows the problems of its `name`. */
export const RefusalContext = createContext<unknown>(undefined)

/** Of `/allowedOrigins/0`, the field `allowedOrigins`; of `/allowance/costUsd` and `/costUsd`, the field `costUsd`. */
export const isAbout = (path: string, name: string): boolean => path.split('/').includes(name)

function useRefusal(name: string | undefined): string | undefined {
  const refusal = useContext(RefusalContext)
  if (!(refusal instanceof RequestFailed) || name === undefined) return undefined
  return refusal.fields.find(({ path }) => isAbout(path, name))?.error
}

type Labelled = {
  readonly label: string
  readonly hint?: ReactNode
  /** Of the member of the request that the field is for. */
  readonly name?: string | undefined
  readonly problem?: string | undefined
}

/** What connects a field with its hint and its problem, for screen readers too. */
type Control = {
  readonly id: string
  readonly name: string | undefined
  readonly 'aria-invalid': true | undefined
  readonly 'aria-describedby': string | undefined
}

function Field({
  label,
  hint,
  name,
  problem,
  children,
}: Labelled & { readonly children: (control: Control) => ReactNode }) {
  const id = useId()
  const refused = useRefusal(name)
  const wrong = problem ?? refused
  const about = [hint && `${id}-hint`, wrong && `${id}-problem`].filter(Boolean).join(' ')
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children({ id, name, 'aria-invalid': wrong ? true : undefined, 'aria-describedby': about || undefined })}
      {hint && (
        <p id={`${id}-hint`} className="mt-1 text-xs text-soft">
          {hint}
        </p>
      )}
      {wrong && (
        <p id={`${id}-problem`} role="alert" className="mt-1 text-xs text-bad">
          {wrong}
        </p>
      )}
    </div>
  )
}

export function TextField({ label, hint, name, problem, ...rest }: Labelled & InputHTMLAttributes<HTMLInputElement>) {
  return (
    <Field {...{ label, hint, name, problem }}>{(control) => <input {...control} {...rest} className="input" />}</Field>
  )
}

export function TextArea({
  label,
  hint,
  name,
  problem,
  className = '',
  ...rest
}: Labelled & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  return (
    <Field {...{ label, hint, name, problem }}>
      {(control) => <textarea {...control} {...rest} className={`input ${className}`} />}
    </Field>
  )
}

type Choice = { readonly value: string; readonly label: string }

type SelectProps = Omit<SelectHTMLAttributes<HTMLSelectElement>, 'onChange'> & {
  readonly label: string
  readonly choices: readonly Choice[]
  readonly onPick: (value: string) => void
}

/** A choice without a visible label, for headers and filters. */
export function Select({ label, choices, onPick, className = '', ...rest }: SelectProps) {
  return (
    <select
      aria-label={label}
      {...rest}
      onChange={(event) => onPick(event.target.value)}
      className={`field-sizing-content min-h-8 max-w-full min-w-0 truncate rounded-lg border border-strong-line bg-panel px-2 py-1 text-[13px] ${className}`}
    >
      {choices.map(({ value, label: name }) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  )
}

export function SelectField({ hint, name, ...rest }: SelectProps & { readonly hint?: ReactNode }) {
  return (
    <Field label={rest.label} hint={hint} name={name}>
      {(control) => <Select {...rest} {...control} className="w-full" />}
    </Field>
  )
}

type CheckboxProps = {
  readonly label: string
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
}

export const Checkbox = ({ label, checked, onChange }: CheckboxProps) => (
  <label className="flex min-h-6 items-center gap-2 text-[13px]">
    <input type="checkbox" className="size-4" checked={checked} onChange={(event) => onChange(event.target.checked)} />
    {label}
  </label>
)

type CheckListProps = {
  readonly legend: string
  readonly name?: string
  readonly choices: readonly string[]
  /** What each of them means. */
  readonly about?: Readonly<Record<string, string>>
  readonly chosen: ReadonlySet<string>
  readonly onChange: (chosen: ReadonlySet<string>) => void
}

/** Any number of some choices. */
export function CheckList({ legend, name, choices, about, chosen, onChange }: CheckListProps) {
  const problem = useRefusal(name)
  const toggle = (choice: string): void => {
    onChange(new Set(choices.filter((each) => chosen.has(each) !== (each === choice))))
  }
  return (
    <fieldset name={name}>
      <legend className="mb-1 text-[13px] font-medium">{legend}</legend>
      <div className="grid grid-cols-1 gap-x-4 gap-y-1 sm:grid-cols-2">
        {choices.map((choice) => (
          <label key={choice} className="flex min-h-6 items-start gap-2 py-0.5 text-[13px]">
            <input
              type="checkbox"
              className="mt-0.5 size-4 shrink-0"
              checked={chosen.has(choice)}
              onChange={() => toggle(choice)}
            />
            <span>
              {choice}
              {about && <span className="block text-xs text-soft">{about[choice]}</span>}
            </span>
          </label>
        ))}
      </div>
      {problem && (
        <p role="alert" className="mt-1 text-xs text-bad">
          {problem}
        </p>
      )}
    </fieldset>
  )
}
