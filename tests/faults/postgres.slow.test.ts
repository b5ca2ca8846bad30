import { ENGINES } from '@bureau/platform/testing'
import { describe } from 'vitest'
import { testPromises } from './promises.contract.ts'

describe.runIf(ENGINES.includes('postgres'))('every promise of the platform on PostgreSQL is kept', () => {
  testPromises('postgres')
})
