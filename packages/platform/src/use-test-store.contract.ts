import { afterAll, beforeAll } from 'vitest'
import type { Engine } from './db/engines.contract.ts'
import type { NewIntegration } from './integrations/manage-integrations.ts'
import { openTestStore, type TestTenant } from './test-store.contract.ts'

export type TestStore = Awaited<ReturnType<typeof openTestStore>>

/** A store on an empty database, for all tests of a block. `isNew`: as for `openTestDatabase`. */
export function useTestStore(engine: Engine, isNew = false): TestStore {
  const platform = {} as TestStore
  beforeAll(async () => void Object.assign(platform, await openTestStore(engine, isNew)))
  afterAll(() => platform.drop())
  return platform
}

/** A tenant of such a store, for all tests of a block. */
export function useTenant(platform: TestStore, integration: Partial<NewIntegration> = {}): TestTenant {
  const tenant = {} as TestTenant
  beforeAll(async () => void Object.assign(tenant, await platform.addTenant(integration)))
  return tenant
}

/** The code of a refusal, or `fine`. */
export const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'fine',
    (error: { code: string }) => error.code,
  )
