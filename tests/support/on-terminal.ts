import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeAfterTest } from './test-server.ts'

/** A command as a person sees it. */
type OnTerminal = {
  /** Resolves when it has printed the text, after what earlier calls have waited for. */
  output(text: string): Promise<void>
  /** All that it has printed. */
  printed(): string
  write(keys: string): void
  /** Presses Ctrl-C; resolves at its end with all that it has printed. */
  stop(): Promise<string>
}

/** Runs a command of a shell on a terminal with so many columns. */
export function startOnTerminal(command: string, env: Record<string, string>, columns = 80): OnTerminal {
  const child = spawn('script', ['-qec', `stty cols ${columns}; exec ${command}`, '/dev/null'], {
    env: { PATH: process.env['PATH'], TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  closeAfterTest(async () => {
    child.kill('SIGKILL')
    await exited
  })
  let [printed, seen] = ['', 0]
  let look = (): void => {}
  child.stdout.on('data', (chunk: Buffer) => {
    printed += chunk.toString()
    look()
  })
  const output = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      look = () => {
        const at = printed.indexOf(text, seen)
        if (at === -1) return
        seen = at + text.length
        resolve()
      }
      look()
      void exited.then(() => reject(new Error(`it ended:\n${printed}`)))
    })
  const stop = async (): Promise<string> => {
    child.stdin.write('\u0003')
    await exited
    return printed
  }
  return { output, printed: () => printed, write: (keys) => void child.stdin.write(keys), stop }
}
