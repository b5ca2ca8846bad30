/** Whether a command has printed what its page says: `…` alone in a line is any lines, inside a line any text. */
export function printsAsShown(printed: string, shown: string): boolean {
  const lines = shown.trim().split('\n')
  const pattern = lines
    .map((line) => (line.trim() === '…' ? '(?:.*\n)*?' : `${line.split('…').map(escapeForRegExp).join('.*')}\n`))
    .join('')
  return new RegExp(`^${pattern}$`).test(`${printed.trim()}\n`)
}

function escapeForRegExp(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
