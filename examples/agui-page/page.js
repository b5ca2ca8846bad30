/**
 * A chat page on the official AG-UI client. Start an agency, then: npx vite examples/agui-page
 *
 * `?agency=http://localhost:8000/<name>` says which agency answers. The client keeps the conversation; the page draws it.
 */
import { HttpAgent } from '@ag-ui/client'

const parameters = new URLSearchParams(location.search)
const agency = parameters.get('agency') ?? 'http://localhost:8000/demo'
const token = parameters.get('token')
const agent = new HttpAgent({
  url: `${agency}/agui`,
  headers: token ? { authorization: `Bearer ${token}` } : {},
})

const conversation = document.querySelector('#conversation')
const status = document.querySelector('#status')
const composer = document.querySelector('#composer')
const message = document.querySelector('#message')
const send = document.querySelector('#send')
const stop = document.querySelector('#stop')

agent.subscribe({
  onMessagesChanged: ({ messages }) => draw(messages),
  onToolCallStartEvent: ({ event }) => tell(`Using ${event.toolCallName}`),
  onReasoningStartEvent: () => tell('Thinking'),
  onTextMessageStartEvent: () => tell('Answering'),
  // A user who stops a run has not run into an error.
  onRunErrorEvent: ({ event }) => event.code === 'abort' || conversation.append(line('error', 'Error', event.message)),
})

composer.addEventListener('submit', (event) => {
  event.preventDefault()
  void ask(message.value)
  message.value = ''
})

stop.addEventListener('click', () => agent.abortRun())

async function ask(content) {
  agent.addMessage({ id: crypto.randomUUID(), role: 'user', content })
  setBusy(true)
  try {
    await agent.runAgent()
  } catch (error) {
    conversation.append(line('error', 'Error', error.message))
  }
  setBusy(false)
}

function setBusy(busy) {
  send.disabled = busy
  stop.disabled = !busy
  conversation.ariaBusy = String(busy)
  tell(busy ? 'Waiting' : 'Ready')
}

function tell(text) {
  status.textContent = text
}

/** Draws the whole conversation: the same messages always give the same page. */
function draw(messages) {
  conversation.replaceChildren(...messages.flatMap(linesOf))
  conversation.lastElementChild?.scrollIntoView({ block: 'end' })
}

function linesOf({ role, content, toolCalls = [] }) {
  const text = typeof content === 'string' ? content : (content ?? []).map((part) => part.text ?? part.type).join('\n')
  const calls = toolCalls.map(({ function: call }) => line('call', 'Tool', `${call.name}(${call.arguments})`))
  return text === '' ? calls : [line(role, SPEAKERS[role] ?? role, text), ...calls]
}

const SPEAKERS = { user: 'You', assistant: 'Agent', tool: 'Result', reasoning: 'Thought' }

function line(role, speaker, text) {
  const item = document.createElement('li')
  item.dataset.role = role
  const name = document.createElement('b')
  name.textContent = speaker
  item.append(name, text)
  return item
}
