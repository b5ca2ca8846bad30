import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useId,
} from 'react'

type Labelled = { readonly label: string; readonly hint?: ReactNode; readonly problem?: string | undefined }

function Field({
  label,
  hint,
  problem,
  id,
  children,
}: Labelled & { readonly id: string; readonly children: ReactNode }) {
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-[13px] font-medium">
        {label}
      </label>
      {children}
      {hint && <p className="mt-1 text-xs text-soft">{hint}</p>}
      {problem && (
        <p role="alert" className="mt-1 text-xs text-bad">
          {problem}
        </p>
      )}
    </div>
  )
}

export function TextField({ label, hint, problem, ...rest }: Labelled & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId()
  return (
    <Field label={label} hint={hint} problem={problem} id={id}>
      <input id={id} {...rest} className="input" />
    </Field>
  )
}

export function TextArea({
  label,
  hint,
  problem,
  className = '',
  ...rest
}: Labelled & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId()
  return (
    <Field label={label} hint={hint} problem={problem} id={id}>
      <textarea id={id} {...rest} className={`input ${className}`} />
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
      className={`min-h-8 max-w-full rounded-lg border border-strong-line bg-panel px-2 py-1 text-[13px] ${className}`}
    >
      {choices.map(({ value, label: name }) => (
        <option key={value} value={value}>
          {name}
        </option>
      ))}
    </select>
  )
}

export function SelectField({ hint, ...rest }: SelectProps & { readonly hint?: ReactNode }) {
  const id = useId()
  return (
    <Field label={rest.label} hint={hint} id={id}>
      <Select {...rest} id={id} className="w-full" />
    </Field>
  )
}

type CheckListProps = {
  readonly legend: string
  readonly choices: readonly string[]
  /** What each of them means. */
  readonly about?: Readonly<Record<string, string>>
  readonly chosen: ReadonlySet<string>
  readonly onChange: (chosen: ReadonlySet<string>) => void
}

/** Any number of some choices. */
export function CheckList({ legend, choices, about, chosen, onChange }: CheckListProps) {
  const toggle = (choice: string): void => {
    onChange(new Set(choices.filter((each) => chosen.has(each) !== (each === choice))))
  }
  return (
    <fieldset>
      <legend className="mb-1 text-[13px] font-medium">{legend}</legend>
      <div className="grid grid-cols-1 gap-1 sm:grid-cols-2">
        {choices.map((choice) => (
          <label key={choice} className="flex min-h-6 items-center gap-2 text-[13px]">
            <input
              type="checkbox"
              className="size-4 shrink-0"
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
    </fieldset>
  )
}
