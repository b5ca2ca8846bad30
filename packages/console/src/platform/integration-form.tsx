import type { Integration } from '@bureau/protocol'
import { useState } from 'react'
import { integrationPath } from '../parts/integrations.tsx'
import { ask } from '../server/request.ts'
import { FormDialog } from '../ui/dialog.tsx'
import { Checkbox, SelectField, TextArea, TextField } from '../ui/field.tsx'
import { useCreate, useSave } from './change.ts'

export type AgencyChoice = { readonly agencyId: string; readonly name: string }

type Settings = Pick<
  Integration,
  | 'name'
  | 'agencyId'
  | 'textOnlyMode'
  | 'memberAllowancesEnabled'
  | 'membersRequired'
  | 'runTimeoutSeconds'
  | 'maxTurns'
  | 'historyTokens'
  | 'allowedOrigins'
  | 'consumerApprovals'
>

const NEW: Omit<Settings, 'agencyId'> = {
  name: '',
  textOnlyMode: false,
  memberAllowancesEnabled: false,
  membersRequired: false,
  runTimeoutSeconds: 1800,
  maxTurns: 50,
  historyTokens: 100_000,
  allowedOrigins: [],
  consumerApprovals: [],
}

/** What the form changes, and nothing else of an integration. */
function settingsOf(settings: Settings): object {
  const names = ['agencyId', ...Object.keys(NEW)] as (keyof Settings)[]
  return Object.fromEntries(names.map((name) => [name, filled(settings[name])]))
}

/** Of a list, the lines that say something. */
const filled = (value: Settings[keyof Settings]): unknown =>
  Array.isArray(value) ? value.map((line) => line.trim()).filter((line) => line !== '') : value

const SWITCHES = [
  ['memberAllowancesEnabled', 'Completions are charged to the allowance of a member'],
  ['membersRequired', 'Members alone may send messages'],
  ['textOnlyMode', 'Completions answer in plain text'],
] as const

const LISTS = [
  [
    'consumerApprovals',
    'Tools about whose calls consumers may decide',
    'One name in each line. About others, API keys decide alone.',
  ],
  ['allowedOrigins', 'Origins of pages with consumer tokens', 'One in each line, such as https://app.example.com.'],
] as const

const LIMITS = [
  { name: 'runTimeoutSeconds', label: 'Seconds a run may take', min: 30, max: 7_200 },
  { name: 'maxTurns', label: 'Turns of a run', min: 1, max: 200 },
  {
    name: 'historyTokens',
    label: 'Tokens of a chat that its model gets',
    hint: 'The latest whole turns. The chat itself keeps everything.',
    min: 1_000,
    max: 1_000_000,
  },
] as const

const SAVED = 'The integration is saved'

type Props = {
  /** Undefined: a new one. */
  readonly integration: Integration | undefined
  readonly agencies: readonly AgencyChoice[]
  readonly onClose: () => void
}

/** What an integration publishes, and by which rules. */
export function IntegrationForm({ integration, agencies, onClose }: Props) {
  const [settings, setSettings] = useState<Settings>(integration ?? { ...NEW, agencyId: agencies[0]?.agencyId ?? '' })
  const create = useCreate<Integration>('v1/integrations', SAVED)
  const change = useSave((body: object) => {
    const { apiIntegrationId = '', version } = integration ?? {}
    const headers = { 'if-match': `"${version}"` }
    return ask<Integration>('platform', integrationPath(apiIntegrationId), { method: 'PATCH', body, headers })
  }, SAVED)
  const save = integration ? change : create
  return (
    <FormDialog
      title={integration ? `Settings of ${integration.name}` : 'New integration'}
      onClose={onClose}
      action="Save"
      ready={settings.name.trim() !== ''}
      onSubmit={() => save.mutate(settingsOf(settings), { onSuccess: onClose })}
      sent={save}
    >
      <Fields settings={settings} set={(changes) => setSettings({ ...settings, ...changes })} agencies={agencies} />
    </FormDialog>
  )
}

type FieldsProps = {
  readonly settings: Settings
  readonly set: (changes: Partial<Settings>) => void
  readonly agencies: readonly AgencyChoice[]
}

function Fields({ settings, set, agencies }: FieldsProps) {
  return (
    <>
      <TextField
        label="Name"
        name="name"
        required
        maxLength={200}
        value={settings.name}
        onChange={(event) => set({ name: event.target.value })}
      />
      <SelectField
        label="Agency"
        name="agencyId"
        value={settings.agencyId}
        choices={agencies.map(({ agencyId, name }) => ({ value: agencyId, label: `${name} (${agencyId})` }))}
        onPick={(agencyId) => set({ agencyId })}
      />
      <Limits settings={settings} set={set} />
      {LISTS.map(([name, label, hint]) => (
        <TextArea
          key={name}
          name={name}
          label={label}
          hint={hint}
          rows={2}
          value={settings[name].join('\n')}
          onChange={(event) => set({ [name]: event.target.value.split('\n') })}
        />
      ))}
      {SWITCHES.map(([name, label]) => (
        <Checkbox key={name} label={label} checked={settings[name]} onChange={(on) => set({ [name]: on })} />
      ))}
    </>
  )
}

/** How much a run may take. */
function Limits({ settings, set }: Omit<FieldsProps, 'agencies'>) {
  return (
    <div className="grid items-end gap-4 sm:grid-cols-2">
      {LIMITS.map(({ name, ...field }) => (
        <div key={name} className="last:sm:col-span-2">
          <TextField
            {...field}
            name={name}
            type="number"
            value={settings[name]}
            onChange={(event) => set({ [name]: Number(event.target.value) })}
          />
        </div>
      ))}
    </div>
  )
}
