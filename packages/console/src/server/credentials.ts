import { useSyncExternalStore } from 'react'
import { SERVER } from './address.ts'

/** `server`: the token of the self-hosted server. `platform`: an API key of an owner. `operator`: the platform's operator key. */
export type Door = 'server' | 'platform' | 'operator'

type Credentials = { readonly [At in Door]?: string }

const KEY = `bureau:credentials:${SERVER}`

/** What somebody has signed in with: in this tab, or in this browser when they asked for that. */
class CredentialStore {
  #credentials: Credentials = { ...read(localStorage), ...read(sessionStorage) }
  readonly #listeners = new Set<() => void>()

  get current(): Credentials {
    return this.#credentials
  }

  signIn(door: Door, secret: string, { remember }: { readonly remember: boolean }): void {
    this.#change({ ...this.#credentials, [door]: secret })
    write(sessionStorage, { ...read(sessionStorage), [door]: secret })
    if (remember) write(localStorage, { ...read(localStorage), [door]: secret })
  }

  signOut(door: Door): void {
    const { [door]: _, ...rest } = this.#credentials
    this.#change(rest)
    for (const storage of [localStorage, sessionStorage]) {
      const { [door]: __, ...kept } = read(storage)
      write(storage, kept)
    }
  }

  subscribe = (changed: () => void): (() => void) => {
    this.#listeners.add(changed)
    return () => void this.#listeners.delete(changed)
  }

  #change(credentials: Credentials): void {
    this.#credentials = credentials
    for (const listener of this.#listeners) listener()
  }
}

export const credentials = new CredentialStore()

export const useCredentials = (): Credentials => useSyncExternalStore(credentials.subscribe, () => credentials.current)

function read(storage: Storage): Credentials {
  try {
    return JSON.parse(storage.getItem(KEY) ?? '{}') as Credentials
  } catch {
    return {}
  }
}

/** A storage that is full or forbidden keeps nothing: one signs in again then. */
function write(storage: Storage, value: Credentials): void {
  try {
    storage.setItem(KEY, JSON.stringify(value))
  } catch {
    // As said above.
  }
}
