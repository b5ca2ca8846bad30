import { readFileSync } from 'node:fs'
import { parseArgs, type ParseArgsConfig } from 'node:util'

/**
 * The options of a command of this repository. With `--help` it prints the comment at the head of its file, which says what the
 * command does and takes, and ends; with a mistake it prints that, too, and ends with exit code 2.
 *
 * @param file - The path of the command.
 */
export function readOptions<const Options extends NonNullable<ParseArgsConfig['options']>>(
  file: string,
  options: Options,
): ReturnType<typeof parseArgs<{ options: Options }>>['values'] {
  const help = /\/\*\*\n([^]*?)\n \*\//.exec(readFileSync(file, 'utf8'))?.[1]?.replaceAll(/^ \* ?/gm, '') ?? ''
  try {
    if (process.argv.includes('--help')) endWith(0, help)
    return parseArgs({ options }).values
  } catch (error) {
    endWith(2, `${(error as Error).message}\n\n${help}`)
  }
}

function endWith(exitCode: number, text: string): never {
  console[exitCode === 0 ? 'log' : 'error'](text)
  process.exit(exitCode)
}
