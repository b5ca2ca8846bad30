import { Observable, useValue } from '../observable.ts'
import { SERVER } from './address.ts'

/** `server`: the token of the self-hosted server. `platform`: an API key of an owner. `operator`: the platform's operator key. */
export type Door = 'server' | 'platform' | 'operator'

type Credentials = { readonly [At in Door]?: string }

const KEY = `bureau:credentials:${SERVER}`

/** What somebody has signed in with: in this tab, or in this browser when they asked for that. */
export const credentials = new Observable<Credentials>({ ...read('localStorage'), ...read('sessionStorage') })

export const useCredentials = (): Credentials => useValue(credentials)

export function signIn(door: Door, secret: string, { remember }: { readonly remember: boolean }): void {
  refused.delete(door)
  credentials.set({ ...credentials.value, [door]: secret })
  write('sessionStorage', { ...read('sessionStorage'), [door]: secret })
  if (remember) write('localStorage', { ...read('localStorage'), [door]: secret })
}

/** The doors at which what somebody had signed in with is not good any more. */
export const refused = new Set<Door>()

/** The server refuses what it has accepted before, e.g. because a key was revoked: one signs in again. */
export function refuse(door: Door): void {
  refused.add(door)
  signOut(door)
}

export function signOut(door: Door): void {
  credentials.set(without(door, credentials.value))
  for (const storage of ['localStorage', 'sessionStorage'] as const) write(storage, without(door, read(storage)))
}

function without(door: Door, given: Credentials): Credentials {
  const { [door]: _, ...others } = given
  return others
}

type Kept = 'localStorage' | 'sessionStorage'

function read(storage: Kept): Credentials {
  try {
    return JSON.parse(window[storage].getItem(KEY) ?? '{}') as Credentials
  } catch {
    return {}
  }
}

/** A full storage keeps nothing, and merely naming a forbidden one throws: the user then signs in again. */
function write(storage: Kept, value: Credentials): void {
  try {
    window[storage].setItem(KEY, JSON.stringify(value))
  } catch {
    // As said above.
  }
}
