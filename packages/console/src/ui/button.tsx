import type { ButtonHTMLAttributes, ComponentProps } from 'react'
import { Icon, type IconName } from './icons.tsx'

type Look = 'primary' | 'plain' | 'quiet' | 'danger'

const LOOKS: Readonly<Record<Look, string>> = {
  primary: 'bg-accent text-accent-ink hover:opacity-90 disabled:opacity-40',
  plain: 'border border-strong-line bg-panel text-ink hover:bg-hover disabled:opacity-40',
  quiet: 'text-soft hover:bg-hover hover:text-ink disabled:opacity-40',
  danger: 'border border-bad/40 bg-panel text-bad hover:bg-bad-soft disabled:opacity-40',
}

export type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { readonly look?: Look; readonly icon?: IconName }

export function Button({ look = 'plain', icon, className = '', children, ...rest }: ButtonProps) {
  return (
    <button type="button" {...rest} className={`${buttonClass(look)} ${className}`}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

/** For links that look like buttons, and for the triggers of menus. */
export function buttonClass(look: Look = 'plain'): string {
  return `inline-flex min-h-8 items-center justify-center gap-1.5 rounded-lg px-3 py-1 text-[13px] font-medium whitespace-nowrap transition-colors ${LOOKS[look]}`
}

type IconProps = Omit<ComponentProps<'button'>, 'children'> & {
  readonly icon: IconName
  /** Says what it does, to those who see and to those who listen. */
  readonly label: string
}

export function IconButton({ icon, label, className = '', ...rest }: IconProps) {
  return (
    <button type="button" aria-label={label} title={label} {...rest} className={`${iconButtonClass} ${className}`}>
      <Icon name={icon} />
    </button>
  )
}

export const iconButtonClass =
  'inline-flex size-8 shrink-0 items-center justify-center rounded-lg text-soft transition-colors hover:bg-hover hover:text-ink disabled:opacity-40'
