import { Command } from 'commander'
import { CommandError } from '../command-error.ts'

/** `bureau init [folder]`: what `npm create bureau` does, for who has Bureau already. */
export const initCommand = new Command('init')
  .description('Make a project: an agency, tests, types, a Dockerfile. "bureau init --help" lists the templates.')
  .argument('[folder]', 'where to make it')
  // Its options are those of `npm create bureau`, which reads them itself.
  .allowUnknownOption()
  .allowExcessArguments()
  .helpOption(false)
  .action(async (_folder: string | undefined, _options: object, command: Command) => {
    const { CreateError, createProject } = await import('create-bureau')
    try {
      await createProject(command.args, { command: 'bureau init' })
    } catch (error) {
      throw error instanceof CreateError ? new CommandError(error.message, { cause: error }) : error
    }
  })
