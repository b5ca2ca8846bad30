import { describe } from 'vitest'
import { testPromises } from './promises.contract.ts'

describe('every promise of the platform on the embedded database is kept', () => {
  testPromises('embedded')
})
