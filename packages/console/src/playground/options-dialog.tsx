import { useState } from 'react'
import { FormDialog } from '../ui/dialog.tsx'
import { TextArea, TextField } from '../ui/field.tsx'
import type { ChatOptions } from '../chats/chat.ts'
import type { ChatSession } from '../chats/chat-session.ts'

type Props = { readonly session: ChatSession; readonly model: string; readonly onClose: () => void }

/** What goes with every message of a chat. */
export function OptionsDialog({ session, model: usual, onClose }: Props) {
  const { options, platform } = session.view.chat
  const [context, setContext] = useState(options.context ? JSON.stringify(options.context, null, 2) : '')
  const [instructions, setInstructions] = useState(options.instructions ?? '')
  const [model, setModel] = useState(options.model ?? '')
  const read = readContext(context)
  const save = (): void => {
    const next: ChatOptions = {
      ...(read.value && { context: read.value }),
      ...(instructions.trim() !== '' && { instructions }),
      ...(model.trim() !== '' && { model: model.trim() }),
    }
    session.configure({ options: next })
    onClose()
  }
  return (
    <FormDialog
      title="Options of this chat"
      about="They go with every message from now on."
      onClose={onClose}
      action="Use these"
      ready={read.problem === undefined}
      onSubmit={save}
    >
      {!platform && (
        <>
          <TextField
            label="Model"
            placeholder={usual}
            value={model}
            onChange={(event) => setModel(event.target.value)}
            hint="In place of the agents' own, as client_config.model."
          />
          <TextArea
            label="Additional instructions"
            rows={3}
            value={instructions}
            onChange={(event) => setInstructions(event.target.value)}
            hint="Added to the instructions of the agent that is addressed."
          />
        </>
      )}
      <TextArea
        label="Context"
        rows={6}
        className="font-mono text-xs"
        placeholder={'{ "user": "ada" }'}
        value={context}
        onChange={(event) => setContext(event.target.value)}
        hint="A JSON object that tools read as user_context. Models never see it."
        problem={read.problem}
      />
    </FormDialog>
  )
}

function readContext(text: string): { readonly value?: Record<string, unknown>; readonly problem?: string } {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return { value: value as Record<string, unknown> }
    return { problem: 'It must be an object: { … }' }
  } catch (error) {
    return { problem: (error as Error).message }
  }
}
