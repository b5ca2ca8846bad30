export { type AskedRun, endOf, type FaceAgency, type FaceHost, type FaceRun, type FaceRunKey } from './face-host.ts'
