import { Menu as Base } from '@base-ui/react/menu'
import type { ReactNode } from 'react'
import { Icon, type IconName } from './icons.tsx'
import { iconButtonClass } from './button.tsx'

type MenuItem = {
  readonly label: string
  readonly icon?: IconName
  readonly act: () => void
  /** Left out from 768 pixels on, where there is a button for it. */
  readonly narrowOnly?: boolean
  /** Asked before it is done, where it cannot be undone. */
  readonly question?: string
}

type Props = {
  /** Says what the menu is about. */
  readonly label: string
  readonly items: readonly MenuItem[]
  /** What opens it. Default: three dots. */
  readonly children?: ReactNode
  readonly className?: string
}

export function Menu({ label, items, children, className = iconButtonClass }: Props) {
  return (
    <Base.Root>
      <Base.Trigger aria-label={label} title={label} className={className}>
        {children ?? <Icon name="more" />}
      </Base.Trigger>
      <Base.Portal container={mainOf}>
        <Base.Positioner sideOffset={4} align="end" className="z-50">
          <Base.Popup className="card min-w-44 p-1 shadow-xl">
            {items.map(({ label: name, icon, act, narrowOnly = false, question }) => (
              <Base.Item
                key={name}
                onClick={() => (question === undefined || confirm(question)) && act()}
                className={`${narrowOnly ? 'md:hidden' : ''} flex min-h-8 cursor-pointer items-center gap-2 rounded-md px-2 py-1 text-[13px] data-[highlighted]:bg-hover ${question === undefined ? '' : 'text-bad'}`}
              >
                {icon && <Icon name={icon} />}
                {name}
              </Base.Item>
            ))}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}

/** Popups lie within the landmark that they belong to. */
const mainOf = {
  get current() {
    return document.querySelector<HTMLElement>('main')
  },
}
