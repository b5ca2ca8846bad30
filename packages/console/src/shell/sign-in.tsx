import { useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { type Door, refused, signIn } from '../server/credentials.ts'
import { forgetEverything, readEverythingAgain } from '../server/queries.ts'
import { reasonOf } from '../server/reason.ts'
import { ask, isRefusal } from '../server/request.ts'
import { Button } from '../ui/button.tsx'
import { Checkbox, TextField } from '../ui/field.tsx'
import { Heading } from '../ui/page.tsx'

type DoorText = { readonly title: string; readonly about: ReactNode; readonly label: string; readonly probe: string }

const DOORS: Readonly<Record<Door, DoorText>> = {
  server: {
    title: 'Sign in to the server',
    about: (
      <>
        The server has a token: the value of the variable <code>APP_TOKEN</code>, or of the one that{' '}
        <code>appTokenEnv</code> names.
      </>
    ),
    label: 'Server token',
    probe: 'openapi.json',
  },
  platform: {
    title: 'Sign in to the platform',
    about: (
      <>
        With an API key of an owner. The first one is in <code>credentials.json</code> of the data folder (
        <code>.bureau</code>); <code>bureau keys create</code> makes others.
      </>
    ),
    label: 'API key',
    probe: 'v1/agencies',
  },
  operator: {
    title: 'Sign in as the operator',
    about: (
      <>
        With the value of the variable <code>PLATFORM_OPERATOR_KEY</code>. It is for whoever runs the platform, and
        manages its owners.
      </>
    ),
    label: 'Operator key',
    probe: 'v1/admin/owners?limit=1',
  },
}

/** Asks for the secret of a door, and tries it before it is kept. */
export function SignIn({ door }: { readonly door: Door }) {
  const queries = useQueryClient()
  const { title, about, label, probe } = DOORS[door]
  const [secret, setSecret] = useState('')
  const [remember, setRemember] = useState(false)
  const [problem, setProblem] = useState(refused.has(door) ? 'It is not valid any more.' : undefined)
  const submit = async (): Promise<void> => {
    try {
      await ask(door, probe, { headers: { authorization: `Bearer ${secret.trim()}` } })
    } catch (error) {
      // What the server says of it is meant for programs.
      if (isRefusal(error, 401)) return setProblem('It is not valid.')
      // A key that may do something else only is a key.
      if (!isRefusal(error, 403)) return setProblem(reasonOf(error))
    }
    const comesBack = refused.has(door)
    signIn(door, secret.trim(), { remember })
    if (comesBack) readEverythingAgain(queries)
    else forgetEverything(queries)
  }
  return (
    <div className="flex h-full items-center justify-center overflow-y-auto p-4">
      <form
        className="card flex w-full max-w-sm flex-col gap-4 p-6"
        onSubmit={(event) => {
          event.preventDefault()
          void submit()
        }}
      >
        <div>
          <Heading title={title} className="text-lg font-semibold" />
          <p className="text-[13px] text-soft">{about}</p>
        </div>
        <TextField
          label={label}
          type="password"
          autoComplete="off"
          autoFocus
          required
          value={secret}
          problem={problem}
          onChange={(event) => setSecret(event.target.value)}
        />
        <Checkbox label="Keep it in this browser" checked={remember} onChange={setRemember} />
        <Button look="primary" type="submit" disabled={secret.trim() === ''}>
          Sign in
        </Button>
      </form>
    </div>
  )
}
