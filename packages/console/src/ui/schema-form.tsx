import { useState } from 'react'
import { Checkbox, SelectField, TextArea, TextField } from './field.tsx'
import { pretty } from './format.ts'

type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
}

export type Members = Readonly<Record<string, unknown>>

/** What a form begins with: of members that must be there, those that are nothing until somebody says otherwise. */
export function startingMembers(schema: Schema, given: Members): Members {
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, member]): [string, unknown][] => {
    const { type, nullable } = kindOf(member)
    if (!schema.required?.includes(name)) return []
    if (nullable) return [[name, null]]
    return type === 'boolean' ? [[name, false]] : []
  })
  return { ...Object.fromEntries(members), ...given }
}

type Props = {
  /** A JSON Schema of an object. */
  readonly schema: Schema
  readonly value: Members
  readonly onChange: (value: Members) => void
}

/** A form with a field for each member of an object; what has no field of its own is written as JSON. */
export function SchemaForm({ schema, value, onChange }: Props) {
  const members = Object.entries(schema.properties ?? {})
  const set = (name: string, member: unknown): void => {
    const { [name]: _, ...others } = value
    onChange(member === undefined ? others : { ...others, [name]: member })
  }
  if (members.length === 0) return <p className="text-[13px] text-soft">It takes no arguments.</p>
  return members.map(([name, member]) => (
    <Member
      key={name}
      name={name}
      schema={member}
      isRequired={schema.required?.includes(name) ?? false}
      value={value[name]}
      set={(next) => set(name, next)}
    />
  ))
}

type MemberProps = {
  readonly name: string
  readonly schema: Schema
  readonly isRequired: boolean
  /** Undefined: it is left out. */
  readonly value: unknown
  readonly set: (value: unknown) => void
}

function Member({ name, schema, isRequired, value, set }: MemberProps) {
  const { type, choices, nullable } = kindOf(schema)
  // A strict tool takes null in the place of what is left out.
  const nothing = isRequired && nullable ? null : undefined
  const about = { name, label: isRequired && !nullable ? `${name} *` : name, hint: schema.description }
  if (type === 'boolean') {
    return <Checkbox label={name} checked={value === true} onChange={set} />
  }
  if (choices) {
    return <Choice {...about} choices={choices} value={value} set={(next) => set(next ?? nothing)} />
  }
  if (type === 'number' || type === 'integer') {
    const read = (text: string): unknown => (text === '' ? nothing : Number(text))
    return (
      <TextField
        {...about}
        type="number"
        step={type === 'integer' ? 1 : 'any'}
        value={typeof value === 'number' ? value : ''}
        onChange={(event) => set(read(event.target.value))}
      />
    )
  }
  if (type === 'string') {
    const read = (text: string): unknown => (text === '' && (nullable || !isRequired) ? nothing : text)
    const text = typeof value === 'string' ? value : ''
    return <TextArea {...about} rows={1} value={text} onChange={(event) => set(read(event.target.value))} />
  }
  return <JsonMember {...about} value={value} set={(next) => set(next ?? nothing)} />
}

type FieldProps = Pick<MemberProps, 'name' | 'value' | 'set'> & {
  readonly label: string
  readonly hint: string | undefined
}

function Choice({ choices, value, set, ...about }: FieldProps & { readonly choices: readonly unknown[] }) {
  // What was given is shown, also when it is not allowed.
  const shown = value == null || choices.includes(value) ? choices : [...choices, value]
  return (
    <SelectField
      {...about}
      value={value == null ? '' : JSON.stringify(value)}
      choices={[
        { value: '', label: '–' },
        ...shown.map((choice) => ({ value: JSON.stringify(choice), label: String(choice) })),
      ]}
      onPick={(picked) => set(picked === '' ? undefined : JSON.parse(picked))}
    />
  )
}

function JsonMember({ name, label, hint, value, set }: FieldProps) {
  const [text, setText] = useState(value === undefined ? '' : pretty(value))
  const [problem, setProblem] = useState<string>()
  const change = (field: HTMLTextAreaElement): void => {
    const next = field.value
    setText(next)
    field.setCustomValidity('') // With a problem, the form is not sent.
    setProblem(undefined)
    try {
      set(next.trim() === '' ? undefined : JSON.parse(next))
    } catch (error) {
      setProblem((error as Error).message)
      field.setCustomValidity('This is not JSON.')
    }
  }
  return (
    <TextArea
      name={name}
      label={label}
      hint={hint ?? 'As JSON.'}
      problem={problem}
      rows={3}
      className="font-mono text-xs"
      value={text}
      onChange={(event) => change(event.target)}
    />
  )
}

type Kind = {
  readonly type: string | undefined
  readonly choices: readonly unknown[] | undefined
  readonly nullable: boolean
}

/** What a member is, besides null. */
function kindOf({ type, enum: choices, anyOf }: Schema): Kind {
  if (anyOf) {
    const others = anyOf.filter((each) => each.type !== 'null')
    const nullable = others.length < anyOf.length
    if (others.length === 1) return { ...kindOf(others[0]!), nullable }
    return { type: undefined, choices: undefined, nullable }
  }
  const types = [type ?? []].flat().filter((each) => each !== 'null')
  return {
    type: types.length === 1 ? types[0] : undefined,
    choices: choices?.filter((choice) => choice !== null),
    nullable: Array.isArray(type) && type.includes('null'),
  }
}
