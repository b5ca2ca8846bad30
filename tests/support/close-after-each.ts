import { afterEach } from 'vitest'
import { closeEverything } from './closing.ts'

// Runs anew for each test file. A hook in a module that files share would be that of the first one only.
afterEach(closeEverything)
