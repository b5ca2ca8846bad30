import type { ReactNode } from 'react'
import './page.css'

export const metadata = { title: '{{name}}' }

export default function Layout({ children }: { children: ReactNode }) {
  return (
    <html lang="en">
      <body>
        <header>
          <h1>{'{{name}}'}</h1>
        </header>
        {children}
      </body>
    </html>
  )
}
