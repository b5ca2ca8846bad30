import { createProject } from './create-project.ts'
import { CreateError } from './project-options.ts'

try {
  await createProject(process.argv.slice(2), { command: 'npm create bureau@latest --' })
} catch (error) {
  if (!(error instanceof CreateError)) throw error
  console.error(error.message)
  process.exitCode = 1
}
