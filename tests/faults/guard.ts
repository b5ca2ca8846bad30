import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'

/** Keeps the processes of each `+ pid` until its `- pid`; at the end of its input kills those that are left. */
const KEEPER = `trap '' INT TERM HUP
kept=' '
while read -r sign pid; do
  rest=\${kept%% $pid *}
  case "$sign$kept" in
    +*) kept="$kept$pid " ;;
    -*" $pid "*) kept="$rest \${kept#* $pid }" ;;
  esac
done
[ "$kept" = ' ' ] || kill -9 $kept 2>/dev/null
true`

let keeper: Socket | undefined

function start(): Socket {
  const child = spawn('sh', ['-c', KEEPER], { stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  child.unref()
  const input = child.stdin as Socket
  input.unref()
  input.on('error', () => {}) // nothing is to be done about it
  return input
}

/**
 * Ends a process with this one, however this one ends: also after a `kill -9`, which nobody can catch, and when that process
 * is stopped and would not notice.
 *
 * @returns Call it when the process has ended by itself: its number may be given to another one.
 */
export function endWithUs(pid: number): () => void {
  keeper ??= start()
  const input = keeper
  input.write(`+ ${pid}\n`)
  return () => void input.write(`- ${pid}\n`)
}
