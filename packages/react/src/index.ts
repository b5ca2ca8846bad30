export type { UiMessage } from './messages.ts'
export { type Agency, useAgency, type UseAgencyOptions } from './use-agency.ts'
