export { createProject } from './create-project.ts'
export { CreateError } from './project-options.ts'
