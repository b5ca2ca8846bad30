import { Link } from '@tanstack/react-router'
import { Empty, Page } from '../ui/page.tsx'

/** An address that leads nowhere, e.g. of an older version. */
export function NoSuchPage() {
  return (
    <Page title="There is no such page">
      <Empty icon="search" title="The address leads nowhere.">
        <Link to="/" className="link">
          To the first page
        </Link>
      </Empty>
    </Page>
  )
}
