'use client'
import { createClient, historiesIn } from '@bureau/client'
import { useAgency } from '@bureau/react'

const isPage = typeof window !== 'undefined'
const client = createClient({
  url: isPage ? new URL('/agents/support', location.origin) : 'http://127.0.0.1/agents/support',
  resume: true,
  histories: historiesIn(),
})

export function Chat() {
  const { messages, status, approvals, error, ...agency } = useAgency({ client, chat: 'mine' })
  return (
    <main>
      {messages.map(({ id, role, parts }) => (
        <article key={id} aria-label={role}>
          {parts.map((part) => {
            // A part with a parent is what another agent has said to the one that asked it.
            if (part.type === 'text' && part.parent === null) return <p key={part.id}>{part.text}</p>
            if (part.type === 'tool')
              return (
                <code key={part.id}>
                  {part.name}: {part.state}
                </code>
              )
            return null
          })}
        </article>
      ))}
      {approvals.map(({ call_id: id, tool, arguments: input, edit }) => (
        <form key={id} action={(form) => void agency.approve(id, edit ? { arguments: form.get('arguments') } : {})}>
          {tool} <input name="arguments" aria-label="Arguments" defaultValue={input} readOnly={!edit} />
          <button>Approve</button>
          <button formAction={() => void agency.reject(id, 'The user said no.')}>Reject</button>
        </form>
      ))}
      {error && <p role="alert">{error.message}</p>}
      {status === 'error' && <button onClick={agency.retry}>Try again</button>}
      {status === 'running' && <button onClick={() => agency.cancel()}>Stop</button>}
      <form action={(form) => void agency.send(String(form.get('message')))}>
        <input name="message" aria-label="Message" placeholder="Where is order 7?" autoComplete="off" required />
        <button>Send</button>
      </form>
    </main>
  )
}
