import { type ReactNode, useEffect } from 'react'
import { reasonOf } from '../server/reason.ts'
import { RequestFailed } from '../server/request.ts'
import { Icon, type IconName } from './icons.tsx'

type PageProps = {
  readonly title: string
  /** One sentence that says what is here. */
  readonly about?: ReactNode
  /** Buttons and filters, at the right of the title. */
  readonly actions?: ReactNode
  /** What it shows. Where that could not be read again, the page says so above it. */
  readonly of?: UnreadProps['of']
  readonly children: ReactNode
}

/** A page that scrolls as a whole. */
export function Page({ title, about, actions, of, children }: PageProps) {
  return (
    <div data-scroller className="h-full overflow-y-auto">
      <div className="mx-auto max-w-6xl px-4 py-5 sm:px-6">
        <header className="mb-4 flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
          <div className="min-w-0">
            <Heading title={title} className="text-lg font-semibold" />
            {about && <p className="max-w-2xl text-[13px] text-soft">{about}</p>}
          </div>
          {actions && <div className="flex min-w-0 flex-wrap items-center gap-2">{actions}</div>}
        </header>
        {of?.error != null && (
          <div className="mb-4">
            <Unread of={of} />
          </div>
        )}
        {children}
      </div>
    </div>
  )
}

type HeadingProps = { readonly title: string; readonly className: string }

/** What a page is called, on it and in the title of the window. It gets the focus when somebody comes to the page. */
export function Heading({ title, className }: HeadingProps) {
  useEffect(() => {
    document.title = `${title} · Bureau`
  }, [title])
  return (
    <h1 tabIndex={-1} className={`${className} outline-none`}>
      {title}
    </h1>
  )
}

type EmptyProps = { readonly icon: IconName; readonly title: string; readonly children?: ReactNode }

/** What stands where there is nothing yet: why, and what to do. */
export function Empty({ icon, title, children }: EmptyProps) {
  return (
    <div className="card flex flex-col items-center gap-2 px-6 py-12 text-center">
      <span className="flex size-10 items-center justify-center rounded-full bg-raised text-soft">
        <Icon name={icon} size={20} />
      </span>
      <p className="font-medium">{title}</p>
      {children && <div className="max-w-md text-[13px] text-soft">{children}</div>}
    </div>
  )
}

export function Loading({ what = 'Loading' }: { readonly what?: string }) {
  return (
    <p role="status" className="flex items-center justify-center gap-2 p-8 text-[13px] text-soft">
      <Icon name="retry" className="spin" />
      {what} …
    </p>
  )
}

type UnreadProps = {
  readonly of: { readonly data: unknown; readonly error: unknown; readonly refetch: () => unknown }
  readonly what?: string
}

/** Why what was asked for is not there: the server refused it, or has not answered yet. */
export function Unread({ of: { data, error, refetch }, what }: UnreadProps) {
  if (error) return <Failure error={error} retry={() => void refetch()} />
  return data === undefined && <Loading {...(what && { what })} />
}

/** The same in place of a whole page. */
export function UnreadPage({ title, of }: Pick<UnreadProps, 'of'> & { readonly title: string }) {
  if (!of.error) return <Loading />
  return (
    <Page title={title} of={of}>
      {null}
    </Page>
  )
}

/** Why something could not be read, in the server's words. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  const fields = error instanceof RequestFailed ? error.fields : []
  return (
    <div role="alert" className="flex items-start gap-2 rounded-lg bg-bad-soft px-3 py-2 text-[13px] text-bad">
      <Icon name="alert" className="mt-0.5 shrink-0" />
      <div className="min-w-0 flex-1">
        <p>{reasonOf(error)}</p>
        {fields.map(({ path, error: problem }) => (
          <p key={path}>
            <code>{path}</code> {problem}
          </p>
        ))}
      </div>
      {retry && (
        <button type="button" className="link font-medium" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}
