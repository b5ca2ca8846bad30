import { StartError } from '@bureau/protocol'
import { expect, test } from 'vitest'
import { loadPlatformConfig } from './config.ts'
import { unavailable } from './db/database-error.ts'
import { startError } from './start-error.ts'

test('a database that is lost in the middle of a start is told in one line, with its reason', () => {
  const error = startError(unavailable('53300 sorry, too many clients already'), loadPlatformConfig({}))

  expect(error).toEqual(new StartError('The database cannot be reached: 53300 sorry, too many clients already.'))
})
